"""Runs `vllm bench serve` as it is in vLLM's package, without the engine behind it.

vLLM's benchmark needs none of what its package imports first: PyTorch, the engine, its models, multimodal inputs. They take gigabytes and do not install
everywhere, so empty stand-ins take their place here. What sends requests and what counts (vllm/benchmarks/serve.py and lib/endpoint_request_func.py) is vLLM's
own, unchanged.
"""

import importlib.machinery
import importlib.metadata
import importlib.util
import sys
import types

STANDINS = (
    "torch", "vllm.env_override", "vllm.inputs", "vllm.lora", "vllm.multimodal", "vllm.transformers_utils", "vllm.tokenizers", "vllm.utils.import_utils",
    "vllm.utils.mistral", "vllm.platforms",
)


class Names(type):
    """Gives a class every name."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything


class Anything(metaclass=Names):
    """Stands for any name of a module that is not there. It can be named in annotations and inherited from; nothing that is measured calls it."""

    def __class_getitem__(cls, _item):
        return cls

    def __init__(self, *_args, **_kwargs):
        pass

    def __getattr__(self, name):
        return type(self)


class Standin(types.ModuleType):
    """A module in which every name is Anything."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything


class Finder:
    """Finds the stand-ins before the real modules are looked for."""

    @staticmethod
    def find_spec(name, _path=None, _target=None):
        if any(name == s or name.startswith(s + ".") for s in STANDINS):
            return importlib.machinery.ModuleSpec(name, Finder, is_package=True)
        return None

    @staticmethod
    def create_module(spec):
        return Standin(spec.name)

    @staticmethod
    def exec_module(_module):
        pass


def tokenizer(path, **_options):
    """Loads a tokenizer as vLLM does in the end."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(path)


def main():
    sys.meta_path.insert(0, Finder)
    import argparse

    import vllm.tokenizers

    vllm.tokenizers.get_tokenizer = tokenizer
    from vllm.benchmarks import serve

    parser = argparse.ArgumentParser(prog="vllm bench serve")
    serve.add_cli_args(parser)
    serve.main(parser.parse_args())


if __name__ == "__main__":
    main()
