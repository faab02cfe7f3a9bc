// A filter's 128 rows of 64 slots in fp64: what transform.cuh has for images in fp32.
#pragma once
#include "long_conv/cuda/onchip/transform.cuh"

namespace faltung::long_conv::cuda::onchip {

// [row][slot], spread over banks as in Cells.
struct alignas(16) PreciseGrid {
  Complex<double> cells[7 * Cells::row + 15 * Cells::row_block + 7 * Cells::group + 8];
};

struct PreciseRow {
  Complex<double>* cells;
  int place;

  __device__ PreciseRow(PreciseGrid& grid, int row, int place)
      : cells(grid.cells + row % 8 * Cells::row + row / 8 * Cells::row_block), place(place) {}
  __device__ __forceinline__ Complex<double>& at(int k1, int k2) const {
    return cells[k1 * Cells::group + k2 * Cells::slot];
  }
};

// A column's rows 0 .. 63, or 64 .. 127.
struct PreciseColumn {
  Complex<double>* cells;
  int place;

  __device__ PreciseColumn(PreciseGrid& grid, ColumnPlace const& at, int half)
      : cells(grid.cells + at.k1 * Cells::group + at.k2 * Cells::slot + half * 8 * Cells::row_block), place(at.place) {}
  __device__ __forceinline__ void load(Complex<double> (&v)[8]) const {
#pragma unroll
    for (int q = 0; q < 8; ++q) v[q] = cells[place * Cells::row + q * Cells::row_block];
  }
  __device__ __forceinline__ void store(Complex<double> const (&v)[8]) const {
#pragma unroll
    for (int q = 0; q < 8; ++q) cells[place * Cells::row + q * Cells::row_block] = v[q];
  }
  __device__ __forceinline__ Complex<double>& other(int p) const {
    return cells[p * Cells::row + place * Cells::row_block];
  }
};

}  // namespace faltung::long_conv::cuda::onchip
