"""The engines' own code loads what the advisor exports: `make test-engines`.

Wheels are downloaded without what they depend on and unpacked outside the environment; what they
import and is not there is replaced by stubs, which are named.
"""
