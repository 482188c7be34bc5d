"""Turns a ``torch.export`` archive into Relax, every binding named after the node of the exported graph that it came from.

PyTorch is optional: it is imported when the first archive is. The graph is first decomposed into core operators, which is what TVM's
converters are right for (of the others some are wrong: ``aten.batch_norm`` becomes a training one); each decomposed node knows the node
of the exported graph it comes from, so the origins are the user's own operators.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

from workbench.engines.relax.naming import name_bindings
from workbench.engines.relax.origins import OriginTable
from workbench.engines.relax.program import Program
from workbench.engines.relax.source_graph import Described, SourceGraph, with_attributes
from workbench.engines.relax.symbolic_shapes import bind_shapes
from workbench.engines.relax.torch_archive import check_archive
from workbench.errors import EnvironmentFault, ModelError
from workbench.escaping import plain
from workbench.records.profile import TensorShape

_TRANSLATOR = "tvm.relax.frontend.torch.exported_program_translator"
_EXPORT_AGAIN = "Export it again with this version of PyTorch."
_REFUSED = {"cond", "_assert_async.default", "_assert_async.msg"}  # TVM converts them, but a profile needs one order of pure operators
_FORCE_PLAIN_LOAD = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


def import_exported_program(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> Program:
    """Import a file that ``torch.export.save`` wrote.

    Args:
        path: The archive (``.pt2``). Archives whose loading could run code are refused.
        shapes: Numbers for the inputs that have dynamic dimensions.

    Raises:
        EnvironmentFault: PyTorch is not installed.
        ModelError: The file, an operator or a shape cannot be used; the message names it.
    """
    check_archive(path)
    torch, translator = _load_torch()
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        exported = _read(torch, path)
        importer = translator.ExportedProgramImporter()
        graph = _Graph(exported, _decompose(exported))
        _check_operators(graph, importer.create_convert_map())
        module = _Conversion(importer, graph).run()
    return Program(module=name_bindings(bind_shapes(module, shapes), graph.table), origins=graph.table, graph=graph.described())


def _load_torch() -> tuple[Any, Any]:
    """PyTorch, and TVM's translator, which imports it too."""
    try:
        return importlib.import_module("torch"), importlib.import_module(_TRANSLATOR)
    except ImportError as error:
        raise EnvironmentFault(
            f"PyTorch is needed to read a torch.export archive: {plain(str(error), 120)}.",
            "Install it: make torch in a checkout, or pip install 'tvm-workbench[torch]'.",
        ) from error


@contextlib.contextmanager
def _plain_load() -> Iterator[None]:
    """Let PyTorch unpickle nothing but tensors, whatever its callers ask for."""
    before = {name: os.environ.pop(name, None) for name in (_FORCE_PLAIN_LOAD, "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")}
    os.environ[_FORCE_PLAIN_LOAD] = "1"
    try:
        yield
    finally:
        del os.environ[_FORCE_PLAIN_LOAD]
        os.environ.update({name: value for name, value in before.items() if value is not None})


def _read(torch: Any, path: Path) -> Any:
    with _plain_load():
        try:
            return torch.export.load(str(path))
        except Exception as error:  # PyTorch raises any class of error on an archive that it does not understand
            reason = plain(f"{type(error).__name__}: {str(error).strip()}", 300)
            raise ModelError(f"PyTorch {torch.__version__} cannot load {plain(path.name)}: {reason}", _EXPORT_AGAIN) from error


def _decompose(exported: Any) -> Any:
    try:
        return exported.run_decompositions()
    except Exception as error:  # PyTorch raises any class of error from the operators' own code
        raise ModelError(f"PyTorch cannot decompose the model: {plain(str(error).strip(), 300)}", _EXPORT_AGAIN) from error


class _Graph:
    """The decomposed graph, and where its nodes come from."""

    def __init__(self, exported: Any, decomposed: Any) -> None:
        self.decomposed = decomposed
        self.table = OriginTable()
        self._exported_id = id(exported.graph)
        self._inputs = set(exported.graph_signature.user_inputs)
        self._exported = {node.name: node for node in exported.graph.nodes}
        self._hints: dict[Any, str] = {}

    def source(self, node: Any) -> Any:
        """The node of the exported graph from which a decomposed node comes; itself where PyTorch does not know."""
        waiting = list(node.meta.get("from_node", ()))
        while waiting:
            entry = waiting.pop()
            if entry.graph_id == self._exported_id and entry.name in self._exported:
                return self._exported[entry.name]
            waiting.extend(entry.from_node)
        return node

    def hint(self, node: Any) -> str:
        """The name hint for what comes from a decomposed node."""
        source = self.source(node)
        if source not in self._hints:
            self._hints[source] = self.table.add(target_name(source), source.name, _module_path(source))
        return self._hints[source]

    def described(self) -> SourceGraph:
        """What the operators read and give; a node of the exported graph that no node of the decomposed one comes from is looked through."""
        graph = SourceGraph()
        sources: dict[Any, tuple[int, ...]] = {}
        own = [node for node in self._hints if node.name not in self._exported or self._exported[node.name] is not node]
        for node in [*self._exported.values(), *own]:
            reads = tuple(source for read in node.all_input_nodes for source in sources.get(read, sources.get(self.source(read), ())))
            if node.op == "placeholder":
                sources[node] = (graph.add_input(node.name, _tensors(node)),) if node.name in self._inputs else ()
            elif node.op == "output":
                for index, result in enumerate(node.all_input_nodes):
                    name = "output" if len(node.all_input_nodes) == 1 else f"output {index}"
                    graph.add_output(name, sources.get(result, ()), _tensors(result))
            elif node in self._hints:
                number = self.table.numbers(self._hints[node])[0]
                weights = tuple(tensor for read in node.all_input_nodes if _is_weight(read, self._inputs) for tensor in _tensors(read))
                graph.describe(number, with_attributes(Described(reads, _tensors(node), weights), _arguments(node)))
                sources[node] = (number,)
            else:
                sources[node] = tuple(dict.fromkeys(reads))
        return graph


def target_name(node: Any) -> str:
    """What a node calls, e.g. ``aten.conv2d.default``."""
    text = str(node.target)
    return text if not text.startswith("<") else str(getattr(node.target, "__name__", text))


def _module_path(node: Any) -> str:
    """The module of the model that a node stands in, e.g. ``layer1.0.conv1``; empty for the model itself."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    return str(stack[-1][0]) if stack and isinstance(stack[-1], tuple) else ""


def _is_weight(node: Any, inputs: set[str]) -> bool:
    return bool(node.op == "get_attr" or (node.op == "placeholder" and node.name not in inputs))


def _tensors(node: Any) -> tuple[TensorShape, ...]:
    """The tensors that a node gives; a dimension that is no number is -1."""
    value = node.meta.get("val")
    values = value if isinstance(value, list | tuple) else [value]
    return tuple(
        TensorShape(tuple(size if isinstance(size, int) else -1 for size in item.shape), str(item.dtype).removeprefix("torch."))
        for item in values
        if hasattr(item, "shape") and hasattr(item, "dtype")
    )


def _arguments(node: Any) -> dict[str, Any]:
    """The arguments of a call that are no nodes, by name or position."""
    given = {**{f"argument {index}": value for index, value in enumerate(node.args)}, **node.kwargs}
    return {name: value for name, value in given.items() if not _holds_node(value)}


def _holds_node(value: Any) -> bool:
    return any(map(_holds_node, value)) if isinstance(value, list | tuple) else hasattr(value, "all_input_nodes")


def _check_operators(graph: _Graph, converters: Mapping[str, Any]) -> None:
    """Raise ModelError that lists all operators which have no converter, with their counts."""
    missing: dict[str, list[str]] = {}
    for node in graph.decomposed.graph.nodes:
        name = getattr(node.target, "__name__", "")
        if node.op == "call_function" and (name not in converters or name in _REFUSED):
            missing.setdefault(target_name(node), []).append(graph.source(node).name)
    if missing:
        listing = ", ".join(f"{plain(op)} (x{len(names)}, first at {plain(names[0])})" for op, names in sorted(missing.items()))
        raise ModelError(f"{len(missing)} operators of the model are not supported: {listing}.", "Replace them in the model, or export it to ONNX.")


class _Conversion:
    """One run of TVM's importer, which tells us nothing about names, made to emit each node under its origin's name."""

    def __init__(self, importer: Any, graph: _Graph) -> None:
        self._importer = importer
        self._graph = graph
        self._current = "The graph"
        importer.convert_map = {name: self._naming(convert) for name, convert in importer.create_convert_map().items()}

    def run(self) -> tvm.IRModule:
        """The module, with the model's inputs as the parameters of ``main``."""
        try:
            module = self._importer.from_exported_program(
                self._graph.decomposed, keep_params_as_input=False, unwrap_unit_return_tuple=True, no_bind_return_tuple=False, custom_convert_map=None
            )
        except Exception as error:  # the importer raises any class of error on a node it cannot convert
            reason = plain(f"{type(error).__name__}: {str(error).strip()}", 300)
            raise ModelError(f"{self._current} cannot be imported: {reason}", "Replace it in the model, or export it to ONNX.") from error
        main = module["main"]
        module.update_func(module.get_global_var("main"), main.with_attr("num_input", len(main.params)))
        return module

    def _naming(self, convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def converted(node: Any) -> Any:
            source = self._graph.source(node)
            self._current = f"Node {plain(source.name)} ({plain(target_name(source))})"
            builder = self._importer.block_builder
            self._importer.block_builder = _NamingBuilder(builder, self._graph.hint(node))
            try:
                return convert(node)
            finally:
                self._importer.block_builder = builder

        return converted


class _NamingBuilder:
    """A block builder that names whatever it emits."""

    def __init__(self, builder: relax.BlockBuilder, hint: str) -> None:
        self._builder = builder
        self._hint = hint

    def emit(self, value: Any, name_hint: str = "") -> Any:
        """Bind a value under the node's name."""
        del name_hint
        return self._builder.emit(value, name_hint=self._hint)

    def emit_te(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Bind a call of a TE function under the node's name."""
        return self.emit(self._builder.call_te(function, *arguments, **options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._builder, name)
