"""What was built apart in Caffe2 is part of the engine here; the name is for imports."""
