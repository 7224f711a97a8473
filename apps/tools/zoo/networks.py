"""Architectures of the shipped weights that no library holds: plain, small, loadable from tensors alone."""

from __future__ import annotations

from typing import Any

from apps.tools.zoo.runtime import torch_module

# EfficientNet-Lite0 (Tan & Le 2019; tensorflow/tpu efficientnet/lite): B0 without squeeze and excitation, with ReLU6.
# (expansion, output channels, kernel, stride, repeats)
_LITE0 = ((1, 16, 3, 1, 1), (6, 24, 3, 2, 2), (6, 40, 5, 2, 2), (6, 80, 3, 2, 3), (6, 112, 5, 1, 3), (6, 192, 5, 2, 4),
          (6, 320, 3, 1, 1))


def efficientnet_lite0(n_classes: int, *, dropout: float = 0.2, stages: int = len(_LITE0), head: int = 1280) -> Any:
    """A torch module: float (n, 3, 224, 224), RGB normalised by ImageNet's mean and deviation → logits (n, n_classes).

    ``stages`` and ``head`` cut it short for small patches: five stages halve the patch four times instead of five. Names of
    tensors are those of the public PyTorch conversion of TensorFlow's weights. Padding is TensorFlow's ``SAME``.
    """
    torch = torch_module()
    nn, functional = torch.nn, torch.nn.functional

    def norm(channels: int) -> Any:
        return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)

    class Same(nn.Conv2d):  # type: ignore[misc,name-defined]
        """A convolution padded as TensorFlow does: for stride 2 the odd pixel goes right and below."""

        def forward(self, x: Any) -> Any:
            k, s = self.kernel_size[0], self.stride[0]
            if s == 1:
                return functional.conv2d(x, self.weight, None, 1, k // 2, 1, self.groups)
            need = [max((-(-n // s) - 1) * s + k - n, 0) for n in x.shape[-2:]]
            pad = (need[1] // 2, need[1] - need[1] // 2, need[0] // 2, need[0] - need[0] // 2)
            return functional.conv2d(functional.pad(x, pad), self.weight, None, s, 0, 1, self.groups)

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, inside: int, outside: int, expand: int, kernel: int, stride: int):
            super().__init__()
            wide = inside * expand
            self.expand, self.skip = expand != 1, stride == 1 and inside == outside
            if self.expand:
                self._expand_conv, self._bn0 = Same(inside, wide, 1, bias=False), norm(wide)
            self._depthwise_conv = Same(wide, wide, kernel, stride, groups=wide, bias=False)
            self._bn1 = norm(wide)
            self._project_conv, self._bn2 = Same(wide, outside, 1, bias=False), norm(outside)

        def forward(self, x: Any) -> Any:
            y = functional.relu6(self._bn0(self._expand_conv(x))) if self.expand else x
            y = functional.relu6(self._bn1(self._depthwise_conv(y)))
            y = self._bn2(self._project_conv(y))
            return x + y if self.skip else y

    class Lite0(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self._conv_stem, self._bn0 = Same(3, 32, 3, 2, bias=False), norm(32)
            blocks, inside = [], 32
            for expand, outside, kernel, stride, repeats in _LITE0[:stages]:
                for i in range(repeats):
                    blocks.append(Block(inside, outside, expand, kernel, stride if i == 0 else 1))
                    inside = outside
            self._blocks = nn.ModuleList(blocks)
            self._conv_head, self._bn1 = Same(inside, head, 1, bias=False), norm(head)
            self._dropout = nn.Dropout(dropout)
            self._fc = nn.Linear(head, n_classes)

        def features(self, x: Any) -> Any:
            """(n, head), what the last layer sees."""
            x = functional.relu6(self._bn0(self._conv_stem(x)))
            for block in self._blocks:
                x = block(x)
            return functional.relu6(self._bn1(self._conv_head(x))).mean((2, 3))

        def forward(self, x: Any) -> Any:
            return self._fc(self._dropout(self.features(x)))

        def head(self, features: Any) -> Any:
            return self._fc(features)

    return Lite0()


def lite0_short(n_classes: int, *, dropout: float = 0.1) -> Any:
    """EfficientNet-Lite0's first five stages and 320 features: float (n, 3, 64, 64), normalised as there → logits."""
    return efficientnet_lite0(n_classes, dropout=dropout, stages=5, head=320)


def small_resnet(n_classes: int, *, width: int = 32, dropout: float = 0.1) -> Any:
    """A torch module: float (n, 3, 64, 64) in [-1, 1] → logits. Six basic residual blocks (He et al. 2016), three halvings."""
    torch = torch_module()
    nn, functional = torch.nn, torch.nn.functional

    class Basic(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, inside: int, outside: int, stride: int):
            super().__init__()
            self.c1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
            self.b1 = nn.BatchNorm2d(outside)
            self.c2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
            self.b2 = nn.BatchNorm2d(outside)
            self.through = None if stride == 1 and inside == outside else nn.Conv2d(inside, outside, 1, stride, bias=False)

        def forward(self, x: Any) -> Any:
            y = self.b2(self.c2(functional.relu(self.b1(self.c1(x)))))
            return functional.relu(y + (x if self.through is None else self.through(x)))

    class Net(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            w = width
            self.stem = nn.Conv2d(3, w, 3, 2, 1, bias=False)
            self.norm = nn.BatchNorm2d(w)
            self.blocks = nn.Sequential(Basic(w, w, 1), Basic(w, w, 1), Basic(w, 2 * w, 2), Basic(2 * w, 2 * w, 1),
                                        Basic(2 * w, 4 * w, 2), Basic(4 * w, 4 * w, 1))
            self.drop = nn.Dropout(dropout)
            self.fc = nn.Linear(4 * w, n_classes)

        def features(self, x: Any) -> Any:
            return self.blocks(functional.relu(self.norm(self.stem(x)))).mean((2, 3))

        def forward(self, x: Any) -> Any:
            return self.fc(self.drop(self.features(x)))

        def head(self, features: Any) -> Any:
            return self.fc(features)

    return Net()
