# libfaltung_cuda: registers the CUDA backend when it is loaded. A folder named after an architecture is compiled for it alone.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90a-real)
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "FALTUNG_CUDA=ON needs nvcc, found none: install a CUDA toolkit, name the compiler in CUDACXX, or build without FALTUNG_CUDA")
endif()
enable_language(CUDA)
find_package(CUDAToolkit 13.0 REQUIRED)
# CMake 3.25 does not know that nvcc speaks C++20.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()

add_library(faltung_cuda SHARED
  src/long_conv/cuda/implementations.cpp src/long_conv/cuda/reduction.cu
  src/long_conv/cuda/planes.cpp src/long_conv/cuda/plane_copies.cu
  src/long_conv/cuda/direct/convolve.cu src/long_conv/cuda/direct/direct.cpp
  src/long_conv/cuda/direct/window.cu src/long_conv/cuda/direct/window_gradient.cu
  src/long_conv/cuda/toeplitz/toeplitz.cpp src/long_conv/cuda/toeplitz/forward.cu src/long_conv/cuda/toeplitz/backward.cu
  src/long_conv/cuda/toeplitz/split.cu
  src/long_conv/cuda/line/line.cpp src/long_conv/cuda/line/product.cu src/long_conv/cuda/line/filter_gradient.cu
  src/long_conv/cuda/spectral/spectral.cpp src/long_conv/cuda/spectral/forward.cu
  src/long_conv/cuda/spectral/gradient.cu src/long_conv/cuda/spectral/split.cu
  src/long_conv/cuda/spectral/wide.cu
  src/long_conv/cuda/onchip/onchip.cpp src/long_conv/cuda/onchip/filters.cu src/long_conv/cuda/onchip/product.cu
  src/long_conv/cuda/onchip/gradient.cu src/long_conv/cuda/onchip/small_gradient.cu
  src/long_conv/cuda/onchip/small_product.cu
  src/long_conv/cuda/spectral_passes/spectral_passes.cpp src/long_conv/cuda/spectral_passes/images.cu
  src/long_conv/cuda/spectral_passes/filters.cu src/long_conv/cuda/spectral_passes/products.cu
  src/long_conv/cuda/transformed/transformed.cpp src/long_conv/cuda/transformed/plan.cpp
  src/long_conv/cuda/transformed/tables.cu src/long_conv/cuda/transformed/rows.cu
  src/long_conv/cuda/transformed/causal.cu src/long_conv/cuda/transformed/columns.cu src/long_conv/cuda/transformed/split.cu
  src/long_conv/cuda/transformed/toeplitz.cu src/long_conv/cuda/transformed/causal_tiles.cpp
  src/long_conv/cuda/transformed/tiles.cu src/long_conv/cuda/transformed/toeplitz_blocks.cu
  src/long_conv/cuda/transformed/toeplitz_pairs.cu src/long_conv/cuda/transformed/cubes.cu)
target_sources(faltung_cuda PRIVATE
  src/causal_conv1d/cuda/check.cpp src/causal_conv1d/cuda/implementations.cpp src/causal_conv1d/cuda/label_edges.cu
  src/causal_conv1d/cuda/forward/any.cu src/causal_conv1d/cuda/forward/channels.cu
  src/causal_conv1d/cuda/forward/final_state.cu
  src/causal_conv1d/cuda/forward/forward.cpp src/causal_conv1d/cuda/forward/time.cu
  src/causal_conv1d/cuda/forward/time_wide.cu
  src/causal_conv1d/cuda/backward/any.cu src/causal_conv1d/cuda/backward/backward.cpp
  src/causal_conv1d/cuda/backward/channels.cu src/causal_conv1d/cuda/backward/final_gradient.cu
  src/causal_conv1d/cuda/backward/reduce.cu src/causal_conv1d/cuda/backward/residual_gradient.cu
  src/causal_conv1d/cuda/backward/state_gradient.cu src/causal_conv1d/cuda/backward/time.cu
  src/causal_conv1d/cuda/backward/time_wide.cu
  src/causal_conv1d/cuda/update/any.cu src/causal_conv1d/cuda/update/update.cpp
  src/causal_conv1d/cuda/update/vectors.cu)
add_library(faltung::faltung_cuda ALIAS faltung_cuda)
set_target_properties(faltung_cuda PROPERTIES CUDA_STANDARD 20)
target_include_directories(faltung_cuda PRIVATE include src)
target_compile_options(faltung_cuda PRIVATE
  "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--compress-mode=size;-Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers>"
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wno-missing-field-initializers>")
target_link_libraries(faltung_cuda PRIVATE faltung CUDA::cudart_static)
set_target_properties(faltung_cuda PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
