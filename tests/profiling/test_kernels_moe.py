"""fp8 expert products against float64, and the alignment of tokens with experts measured apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from advisor.profiling import kernels_moe
from advisor.profiling.kernels_moe import TOLERANCE as moe_TOLERANCE
from advisor.profiling.kernels_moe import (
    Choice,
    MoeLayer,
    alignment_of,
    dequantised,
    fp8_rows,
    make_choice,
    make_layer,
    reference,
    relative_error,
    sorted_pairs,
)
from advisor.profiling.moe_sweep import check_alignment
from advisor.profiling.routing_draw import draw_routing

N = 8
WIDTH = 32
HIDDEN = 64
K = 3
TOLERANCE = moe_TOLERANCE["float8_e4m3fn"]


def filled(n_tokens: int, seed: int = 0) -> Choice:
    choice = make_choice(n_tokens, K, torch.bfloat16, "cpu")
    choice.fill(draw_routing(np.random.default_rng(seed), n_tokens, 1, N, K)[:, 0])
    return choice


def fp8_layer() -> MoeLayer:
    return make_layer(N, WIDTH, HIDDEN, 0, torch.float8_e4m3fn, "cpu")


def grouped_by_hand(
    x: torch.Tensor,
    weight: torch.Tensor,
    scale: torch.Tensor,
    weight_scale: torch.Tensor,
    **how: Any,
) -> torch.Tensor:
    """What torch._scaled_grouped_mm computes on a GPU, expert by expert; torch's own shape function
    checks it."""
    on_meta = [tensor.to("meta") for tensor in (x, weight, scale, weight_scale)]
    shape = torch._scaled_grouped_mm(
        *on_meta, offs=how["offs"].to("meta"), out_dtype=how["out_dtype"]
    ).shape
    out = torch.zeros(len(x), weight.shape[-1])
    start = 0
    for expert, end in enumerate(how["offs"].tolist()):
        product = x[start:end].float() @ weight[expert].float()
        out[start:end] = product * scale[start:end, None] * weight_scale[expert]
        start = end
    assert out.shape == shape
    return out.to(how["out_dtype"])


def test_rounding_to_fp8_uses_the_whole_range_of_each_row() -> None:
    x = torch.randn(5, 64) * torch.tensor([1e-3, 1.0, 1e3, 1e-6, 0.0])[:, None]
    numbers, scale = fp8_rows(x)
    assert numbers.float().abs().amax(dim=-1)[:4].tolist() == [448.0] * 4
    error = (dequantised(numbers, scale) - x.double()).norm(dim=-1)
    assert bool((error[:4] < 0.04 * x.double().norm(dim=-1)[:4]).all())
    assert bool(torch.isfinite(dequantised(numbers, scale)).all())


@pytest.mark.parametrize("tokens", [1, 7, 40])
def test_fp8_kernels_agree_with_float64(tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = fp8_layer()
    choice = filled(tokens)
    x = torch.randn(tokens, HIDDEN).to(torch.bfloat16)
    wanted = reference(x, layer, choice, list(range(tokens)))
    assert relative_error(kernels_moe.scaled_mm_loop(x, layer, choice), wanted) < TOLERANCE
    monkeypatch.setattr(
        kernels_moe,
        "_grouped_fp8",
        lambda *a: grouped_by_hand(a[0], a[1].transpose(-2, -1), *a[2:4], **how(a[4])),
    )
    assert relative_error(kernels_moe.scaled_grouped_mm(x, layer, choice), wanted) < TOLERANCE


def how(ends: torch.Tensor) -> dict[str, Any]:
    return {"offs": ends, "out_dtype": torch.bfloat16}


def test_the_fp8_reference_is_close_to_the_layer_without_rounding() -> None:
    layer = fp8_layer()
    choice = filled(20)
    x = torch.randn(20, HIDDEN).to(torch.bfloat16)
    wide = MoeLayer(dequantised(layer.w13, layer.scale13), dequantised(layer.w2, layer.scale2))
    rows = list(range(20))
    error = relative_error(reference(x, layer, choice, rows), reference(x, wide, choice, rows))
    assert 1e-3 < error < 0.08, "rounding of tokens and inner values costs a few per cent, no more"


def test_a_wrong_scale_is_caught() -> None:
    layer = fp8_layer()
    choice = filled(9)
    x = torch.randn(9, HIDDEN).to(torch.bfloat16)
    wrong = MoeLayer(layer.w13, layer.w2, scale13=layer.scale13, scale2=1.1 * layer.scale2)
    wanted = reference(x, layer, choice, list(range(9)))
    assert relative_error(kernels_moe.scaled_mm_loop(x, wrong, choice), wanted) > 2 * TOLERANCE


def test_torch_takes_the_arguments_of_the_grouped_fp8_product() -> None:
    layer = fp8_layer()
    choice = filled(12)
    order, ends = sorted_pairs(layer, choice)
    numbers, scale = fp8_rows(torch.randn(12, HIDDEN).to(torch.bfloat16)[order // K])
    assert layer.scale13 is not None
    out = grouped_by_hand(numbers, layer.w13.transpose(-2, -1), scale, layer.scale13, **how(ends))
    assert out.shape == (12 * K, 2 * WIDTH)
    with pytest.raises(
        RuntimeError
    ):  # the shape function of the installed torch refuses a scale of the wrong length
        grouped_by_hand(
            numbers, layer.w13.transpose(-2, -1), scale[:-1], layer.scale13, **how(ends)
        )


def test_alignment_groups_pairs_by_expert() -> None:
    layer = fp8_layer()
    choice = filled(30)
    alignment = alignment_of("grouped_mm")
    assert alignment is not None
    assert alignment_of("expert_loop") is None
    pairs, ends = alignment(layer, choice)
    check_alignment(choice, pairs, ends)
    with pytest.raises(ValueError, match="not grouped"):
        check_alignment(choice, pairs.flip(0), ends)
    with pytest.raises(ValueError, match="not grouped"):
        check_alignment(choice, torch.zeros_like(pairs) + pairs[0], ends)
    with pytest.raises(ValueError, match="ends"):
        check_alignment(choice, pairs, ends + 1)


def test_a_device_without_the_grouped_product_is_told_as_such(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer = fp8_layer()
    choice = filled(4)
    x = torch.randn(4, HIDDEN).to(torch.bfloat16)
    with pytest.raises(
        NotImplementedError, match="no grouped fp8 product for this device: Could not run"
    ):
        kernels_moe.scaled_grouped_mm(x, layer, choice)

    def refusing(*_: Any, **__: Any) -> torch.Tensor:
        raise RuntimeError(
            "torch._scaled_grouped_mm is only supported on CUDA devices with compute capability = "
            "9.0"
        )

    monkeypatch.setattr(torch, "_scaled_grouped_mm", refusing)
    with pytest.raises(NotImplementedError, match="compute capability"):
        kernels_moe.scaled_grouped_mm(x, layer, choice)
    monkeypatch.delattr(torch, "_scaled_grouped_mm")
    with pytest.raises(NotImplementedError, match="this torch has no _scaled_grouped_mm"):
        kernels_moe.scaled_grouped_mm(x, layer, choice)


def test_an_illegal_access_is_no_missing_product(monkeypatch: pytest.MonkeyPatch) -> None:
    def crashing(*_: Any, **__: Any) -> torch.Tensor:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch, "_scaled_grouped_mm", crashing)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        kernels_moe.scaled_grouped_mm(
            torch.randn(4, HIDDEN).to(torch.bfloat16), fp8_layer(), filled(4)
        )
