"""Prints the folder of the torch that this Python's user has installed, or nothing. Looks at files alone: inside an isolated build
environment `import torch` fails, though the environment that started the build has it."""

import os
import site
import sys
import sysconfig

folders = [*sys.path, *sysconfig.get_paths().values(), *site.getsitepackages([sys.prefix, sys.base_prefix]), site.getusersitepackages()]
for folder in folders:
    if os.path.isfile(os.path.join(folder, "torch/include/torch/csrc/stable/library.h")):
        print(os.path.join(folder, "torch"), end="")
        break
