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

TWINS = """#[version = "0.0.5"]
def @main(%data: Tensor[(1, 16, 14, 14), float32],
    %one_weight: Tensor[(16, 16, 3, 3), float32], %one_bias: Tensor[(16), float32],
    %two_weight: Tensor[(16, 16, 3, 3), float32], %two_bias: Tensor[(16), float32],
    %bn_gamma: Tensor[(16), float32], %bn_beta: Tensor[(16), float32], %bn_mean: Tensor[(16), float32], %bn_var: Tensor[(16), float32],
    %three_weight: Tensor[(16, 16, 1, 1), float32], %four_weight: Tensor[(16, 16, 1, 1), float32],
    %query_weight: Tensor[(32, 3136), float32], %query_bias: Tensor[(32), float32],
    %key_weight: Tensor[(32, 3136), float32], %key_bias: Tensor[(32), float32],
    %value_weight: Tensor[(32, 3136), float32], %value_bias: Tensor[(32), float32]) {
  %0 = nn.conv2d(%data, %one_weight, padding=[1, 1, 1, 1], channels=16, kernel_size=[3, 3]);
  %1 = nn.bias_add(%0, %one_bias);
  %2 = nn.conv2d(%data, %two_weight, padding=[1, 1, 1, 1], channels=16, kernel_size=[3, 3]);
  %3 = nn.bias_add(%2, %two_bias);
  %4 = add(%1, %3);
  %5 = nn.conv2d(%4, %three_weight, padding=[0, 0, 0, 0], channels=16, kernel_size=[1, 1]);
  %6 = nn.batch_norm(%5, %bn_gamma, %bn_beta, %bn_mean, %bn_var);
  %7 = %6.0;
  %8 = nn.conv2d(%4, %four_weight, padding=[0, 0, 0, 0], channels=16, kernel_size=[1, 1]);
  %9 = add(%7, %8);
  %10 = nn.batch_flatten(%9);
  %11 = nn.dense(%10, %query_weight, units=32);
  %12 = nn.bias_add(%11, %query_bias);
  %13 = nn.dense(%10, %key_weight, units=32);
  %14 = nn.bias_add(%13, %key_bias);
  %15 = nn.dense(%10, %value_weight, units=32);
  %16 = nn.bias_add(%15, %value_bias);
  %17 = subtract(%12, %14);
  %18 = nn.softmax(%17);
  add(%18, %16)
}
"""
"""Layers of one shape that read the same and meet in the same operator: what lies around them does not tell them apart."""
