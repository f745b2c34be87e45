"""Training in which ranks average weights instead of gradients, and what else a Strategy offers.

schedule    START HERE: when ranks average their weights (decides)
averaging   a step's averages, over the primitives of JAX and of Keras
outer       DiLoCo's outer optimizer
warm_up     the learning rate of a large job (decides)
factors     whether the factors of a weight's gradient travel instead of it (decides)
"""
