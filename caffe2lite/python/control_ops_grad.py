def gen_do_gradient(op,g): pass
def gen_if_gradient(op,g): pass
def gen_while_gradient(op,g): pass
def disambiguate_grad_if_op_output(a,b,c): pass
