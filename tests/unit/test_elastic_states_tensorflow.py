"""TensorFlowState and TensorFlow's update gate in one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
pytest.importorskip("hvdlite._core", reason="the native core is not built here")

import hvdlite.tensorflow as hvd  # noqa: E402
from hvdlite.core import engine  # noqa: E402
from hvdlite.exceptions import HorovodInternalError, MismatchError  # noqa: E402
from hvdlite.rendezvous.documents import Role  # noqa: E402
from hvdlite.tensorflow.elastic.gate import GraphGate  # noqa: E402

pytestmark = pytest.mark.usefixtures("alone")


def _numbers(variables: list[Any]) -> list[Any]:
    return [variable.numpy().tolist() for variable in variables]


def test_the_names_are_horovods() -> None:
    from hvdlite.tensorflow.elastic import TensorFlowKerasState, TensorFlowState, run

    assert set(hvd.elastic.__all__) == {"TensorFlowKerasState", "TensorFlowState", "run"}
    assert hvd.elastic.run is run and TensorFlowState is hvd.elastic.TensorFlowState
    assert issubclass(TensorFlowKerasState, hvd.elastic.ObjectState)
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        hvd.elastic.no_such_name  # noqa: B018


def test_variables_go_back_to_the_commit_as_often_as_needed() -> None:
    variables = [tf.Variable([1.0, 2.0]), tf.Variable(3)]
    bias = tf.Variable(0.5)
    state = hvd.elastic.TensorFlowState(variables, bias=bias, batch=0)
    variables[0].assign_add([1.0, 1.0])
    state.batch = 4
    state.commit()
    for _ in range(2):
        variables[0].assign([9.0, 9.0])
        variables[1].assign(9)
        bias.assign(9)
        state.batch = 9
        state.restore()
        assert _numbers([*variables, bias]) == [[2.0, 3.0], 3, 0.5] and state.batch == 4
    state.sync()
    assert _numbers(state.variables) == [[2.0, 3.0], 3]


class _OfKeras:
    """A variable as Keras 3 has it on TensorFlow: no tf.Variable."""

    def __init__(self, value: float) -> None:
        self._value = tf.Variable(value)
        self.assign, self.numpy = self._value.assign, self._value.numpy


@pytest.mark.parametrize("made", [tf.Variable, _OfKeras])
def test_a_failed_step_is_undone(made: Any) -> None:
    variable = made(1.0)
    state = hvd.elastic.TensorFlowState([variable])
    variable.assign(2.0)
    state.step()
    variable.assign(7.0)
    assert state._progress().whole
    state._take_role(Role.KEEP, None, 1)
    assert variable.numpy() == 2.0


def test_what_is_no_variable_is_refused() -> None:
    with pytest.raises(TypeError, match="not EagerTensor|not .*Tensor"):
        hvd.elastic.TensorFlowState([tf.ones(2)])


def test_variables_of_a_session() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("v", initializer=[1.0, 2.0])
        session.run(tf.compat.v1.global_variables_initializer())
        state = hvd.elastic.TensorFlowState(session=session)
        change = variable.assign([5.0, 5.0])
        session.run(change)
        state.commit()
        session.run(variable.assign([9.0, 9.0]))
        state.restore()
        assert session.run(variable).tolist() == [5.0, 5.0]
        state.sync()
        assert session.run(variable).tolist() == [5.0, 5.0]


def _fails(what: Any) -> Exception:
    @hvd.elastic.run
    def train(state: Any) -> None:
        what()

    with pytest.raises(Exception) as error:  # noqa: PT011
        train(hvd.elastic.ObjectState())
    return error.value


def test_run_knows_the_errors_of_kernels_by_hvdlites_mark() -> None:
    reduce = tf.function(lambda: hvd.allreduce(tf.ones(3), name="x"))
    reduce()
    engine.abort("rank 4 was lost")
    lost = _fails(reduce)
    assert isinstance(lost, HorovodInternalError) and lost.retryable
    assert "rank 4 was lost" in str(lost) and not isinstance(lost, tf.errors.OpError)


def test_every_other_error_is_raised() -> None:
    def unknown() -> None:
        raise tf.errors.UnknownError(None, None, "HorovodAllreduce has failed")

    def different() -> None:
        raise tf.errors.FailedPreconditionError(None, None, "hvdlite.MismatchError: 3 is not 4")

    assert type(_fails(unknown)) is tf.errors.UnknownError
    mismatch = _fails(different)
    assert isinstance(mismatch, MismatchError) and not mismatch.retryable


@pytest.mark.parametrize("sparse", [False, True])
def test_updates_wait_for_all_gradients(sparse: bool) -> None:
    gate, weight = GraphGate(), tf.Variable(1.0)

    @tf.function
    def step(limit: Any) -> None:
        gradient = tf.where(weight > 0, 1.0, 2.0)
        last = tf.debugging.check_numerics(1.0 / limit, "a reduction fails")
        if sparse:
            last = tf.IndexedSlices(last[None], tf.zeros([1], tf.int64))
        with gate.behind([gradient, None, last]):
            weight.assign(0.5 * weight)  # as decay does: of no gradient

    assert not gate.guards()
    step(tf.constant(1.0))
    assert gate.guards() and gate.has_begun() and weight.numpy() == 0.5
    gate.close()
    with pytest.raises(tf.errors.InvalidArgumentError):
        step(tf.constant(0.0))
    assert not gate.has_begun() and weight.numpy() == 0.5


def test_eager_updates_are_noted_and_compiled_ones_have_no_gate() -> None:
    gate = GraphGate()
    with gate.behind([tf.ones(2)]):
        pass
    assert gate.has_begun() and gate.guards()
    gate.close()
    assert not gate.has_begun()

    @tf.function(jit_compile=True)
    def compiled(x: Any) -> Any:
        with gate.behind([x]):
            return x + 1

    assert np.asarray(compiled(tf.ones(2))).tolist() == [2.0, 2.0]
    assert not gate.guards()
