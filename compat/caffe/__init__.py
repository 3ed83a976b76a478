"""The package of Caffe 1's messages, which Caffe2 installed too."""
