"""Models in Relay text that the tests of the relay engine run on."""

CONVOLUTION = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 8, 14, 14), float32], %w: Tensor[(16, 8, 3, 3), float32], %d: Tensor[(24, 3136), float32]) {
  %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=16, kernel_size=[3, 3]);
  %1 = nn.relu(%0);
  %2 = nn.batch_flatten(%1);
  %3 = nn.dense(%2, %d, units=24);
  nn.softmax(%3)
}
"""
