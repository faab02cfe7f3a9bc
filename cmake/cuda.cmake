# libfaltung_cuda: registers the CUDA backend when it is loaded. A folder named after an architecture is compiled for it alone.
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
# CMake 3.25 does not know CUDA C++20.
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>")

add_library(faltung_cuda SHARED src/long_conv/cuda/implementations.cpp)
add_library(faltung::faltung_cuda ALIAS faltung_cuda)
target_include_directories(faltung_cuda PRIVATE include src)
target_link_libraries(faltung_cuda PRIVATE faltung CUDA::cudart_static)
set_target_properties(faltung_cuda PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
