"""The cells of recurrent networks; rnn_cell gathers them."""
