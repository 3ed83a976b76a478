"""Gradients of Do, If and While."""


def gen_do_gradient(op, g_output):
    raise NotImplementedError


gen_if_gradient = gen_while_gradient = disambiguate_grad_if_op_output = gen_do_gradient
