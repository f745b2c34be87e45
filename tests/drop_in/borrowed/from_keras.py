"""What programs call of a distributed optimizer besides apply_gradients(), on Keras 3 as on older
ones."""

import horovod.tensorflow.keras as hvd
import tensorflow as tf

hvd.init()
rank, size = hvd.rank(), hvd.size()
total = size * (size - 1) / 2


def steps(op, expected, taped, function):
    """What each rank's number as its gradient does to a variable."""
    x = tf.keras.Variable(0.0)
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0), op=op)
    optimizer.build([x])

    def computed():
        if not taped:
            return optimizer._compute_gradients(lambda: x * float(rank), [x])
        with tf.GradientTape() as tape:
            loss = x * float(rank)
        return optimizer._compute_gradients(loss, [x], tape=tape)

    @function
    def step():
        ((gradient, variable),) = computed()
        assert variable is x
        optimizer.apply_gradients([(gradient, variable)])
        return gradient

    @function
    def clipped():
        # Between computing and applying they may be changed.
        optimizer.apply_gradients([(tf.clip_by_value(g, -0.25, 0.25), v) for g, v in computed()])

    @function
    def usual():
        optimizer.apply_gradients([(tf.constant(float(rank)), x)])

    for turn in (1, 2):
        assert float(step()) == expected and float(x) == -turn * expected, (op, taped, float(x))
    x.assign(0.0)
    clipped()
    assert float(x) == -min(expected, 0.25), (op, taped, float(x))
    # The next step is reduced by apply_gradients() again.
    x.assign(0.0)
    usual()
    assert float(x) == -expected, (op, taped, float(x))
    # gradients that are computed and not applied change nothing for those that are
    if op == hvd.Average:
        computed()
        x.assign(0.0)
        usual()
        assert float(x) == -expected, (op, taped, float(x))


for op, expected in ((hvd.Average, total / size), (hvd.Sum, total)):
    for taped in (True, False):
        for function in (lambda f: f, tf.function):
            steps(op, expected, taped, function)

x = tf.keras.Variable(0.0)
held = hvd.DistributedOptimizer(
    tf.keras.optimizers.SGD(1.0), op=hvd.Sum, backward_passes_per_step=2
)
for turn in range(2):
    held.apply_gradients(held._compute_gradients(lambda: x * float(rank), [x]))
    assert float(x) == (0.0 if turn == 0 else -2 * total), (turn, float(x))
print(f"rank {rank} of {size} is done")
