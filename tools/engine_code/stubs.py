"""Stand-ins for packages that an engine imports and this environment lacks, so that its parsers run
on a bare machine.

torch is always replaced: its real one would register the engine's operators. A stand-in takes any
attribute, call or base class and means nothing; every name it was asked for is listed in `USED`.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, Protocol

USED: set[str] = set()
FORCED = frozenset({"torch", "triton"})
ABSENT = frozenset(
    {
        "torch_npu",
        "torch_musa",
        "torch_xla",
        "habana_frameworks",
        "intel_extension_for_pytorch",
        "mlx",
    }
)
"""Packages by whose presence an engine tells the device; they stay away."""
_NOT_THE_DEVICE = frozenset({"npu", "musa", "xpu", "hpu", "mps"})
_VERSION = "99.0.0"


class _Meta(type(Protocol)):  # type: ignore[misc]
    """A stand-in class: every attribute of it is one too. It is of protocols' type, to stand beside
    them as a base."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return stand_in(name)

    def __or__(cls, other: object) -> Any:
        return cls

    __ror__ = __or__

    def __getitem__(cls, item: object) -> Any:
        return cls

    def __iter__(cls) -> Any:
        return iter(())

    def __int__(cls) -> int:
        return 0

    __index__ = __int__

    def __truediv__(cls, other: object) -> Any:
        return cls

    __rtruediv__ = __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __floordiv__ = (
        __truediv__
    )


def _attribute(_: object, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return stand_in(name)()


def _called(stand: object, *args: Any, **_: Any) -> Any:
    decorates = len(args) == 1 and callable(args[0]) and not isinstance(args[0], _Meta)
    return args[0] if decorates else stand


def _any_schema(*_: Any) -> Any:
    from pydantic_core import core_schema

    return core_schema.any_schema()


def _itself(stand: object, *_: Any, **__: Any) -> Any:
    return stand


def _always(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


_SAME = (
    *(
        "add",
        "radd",
        "sub",
        "rsub",
        "mul",
        "rmul",
        "truediv",
        "rtruediv",
        "floordiv",
        "rfloordiv",
        "mod",
        "rmod",
        "pow",
    ),
    *("or", "ror", "and", "rand", "lshift", "rlshift", "getitem", "enter", "neg"),
)
_BODY: dict[str, Any] = {
    **{f"__{name}__": _itself for name in _SAME},
    "__getattr__": _attribute,
    "__call__": _called,
    "__init__": _always(None),
    "__init_subclass__": classmethod(_always(None)),
    "__get_pydantic_core_schema__": classmethod(_any_schema),
    "__iter__": lambda _: iter(()),
    "__exit__": _always(None),
    "__len__": _always(0),
    "__bool__": _always(False),
    "__int__": _always(0),
    "__index__": _always(0),
    "__float__": _always(0.0),
    "__fspath__": _always("/stub"),
    "__lt__": _always(False),
    "__le__": _always(False),
    "__gt__": _always(True),
    "__ge__": _always(True),
}


def stand_in(name: str) -> type:
    """A class that takes anything and means nothing."""
    return _Meta(name, (), dict(_BODY))


class StubModule(types.ModuleType):
    """A module of stand-ins."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__version__ = _VERSION
        self.__file__ = f"/stub/{name}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or (self.__name__ == "torch" and name in _NOT_THE_DEVICE):
            raise AttributeError(name)
        value = stand_in(name)
        setattr(self, name, value)
        return value


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, engine: str) -> None:
        self.engine = engine

    def find_spec(self, fullname: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        top = fullname.split(".")[0]
        if top == self.engine or top in sys.stdlib_module_names or top in ABSENT:
            return None
        if top not in FORCED and (
            not self._asked_by_engine(top) or importlib.machinery.PathFinder.find_spec(top)
        ):
            return None
        USED.add(top)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def _asked_by_engine(self, top: str) -> bool:
        """Whether the import stands in the engine's code or within a stub; installed packages try
        many of their own."""
        frame: types.FrameType | None = sys._getframe(2)
        while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(
            ("importlib", "_frozen")
        ):
            frame = frame.f_back
        by = str(frame.f_globals.get("__name__", "")) if frame is not None else ""
        return by.split(".")[0] == self.engine or top in USED

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return StubModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__name__ == "torch":
            module.version = types.SimpleNamespace(hip=None, cuda=None, xpu=None)  # type: ignore[attr-defined]
        if module.__name__ == "torch.library":
            module.infer_schema = _always("() -> ()")  # type: ignore[attr-defined]


def install(engine: str, own: Sequence[str] = ()) -> None:
    """Stub what `engine` (a package) imports and is not installed, and modules of its own that need
    a device."""
    import re

    sys.modules["regex"] = re  # the same functions under another name
    sys.meta_path.insert(0, _Finder(engine))
    for name in own:
        sys.modules[name] = StubModule(name)
        USED.add(name)
