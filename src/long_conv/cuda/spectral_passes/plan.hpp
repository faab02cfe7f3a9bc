// The spectral method in passes through a workspace, for grids of up to 128 x 128 points: as in cuda.spectral the
// contiguous axis is transformed (N frequencies f + 1/2 of 2N points, N = 128, in the same slots), along the rows a
// Toeplitz product remains per slot. The spectra of eight images and their filter are too large for a multiprocessor,
// but slots are independent: kernels of their own transform images and filters, multiply slots in place and transform
// back, and what lies between them is fp16 words of re and im, in one order for all.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "long_conv/cuda/toeplitz/shape.hpp"

namespace faltung::long_conv::cuda::spectral_passes {

using toeplitz::images;

inline constexpr int points = 128, slots = points, row_lags = 2 * points;
inline constexpr int low_slots = 2;  // that have two halves in fp16

// Products of the largest spectra, 128 rows x 256 x 510, then stay below the largest half: of filters this factor, of
// sums over 8 images x 128 rows, of two slots at a time, the other one.
inline constexpr int filter_headroom = -8, gradient_headroom = -12;

// Where a grid row lies among the 128 words of an image in a slot: rows r and r + 8 are neighbours, so that what a lane
// holds of two MMA tiles is 8 or 16 bytes in a row.
__host__ __device__ constexpr int row_position(int row) { return row / 16 * 16 + row % 8 * 2 + row / 8 % 2; }

// What goes through the workspace at once: groups of images (8, or 1 where each sample has its filter) of neighbouring
// channels. A unit is one group of one channel.
struct Chunk {
  std::int64_t first_channel, first_image;
  int channels, groups;
  int images;             // places of a unit in the workspace
  int images_per_filter;  // of a unit: 8, or 1 where each sample has a filter
  int present;            // images of the chunk, from first_image on
  int filters_per_channel;
  // A launch that goes through units from the last to the first, after one that went the other way, finds in L2 what
  // that one left there.
  bool reversed = false;

  Chunk backwards() const {
    Chunk chunk = *this;
    chunk.reversed = true;
    return chunk;
  }
  // The index-th of `count` places, units or filters, in the order of the launch.
  __host__ __device__ int at(int index, int count) const { return reversed ? count - 1 - index : index; }
  __host__ __device__ int units() const { return channels * groups; }
  __host__ __device__ int filters() const { return channels * filters_per_channel; }
  __host__ __device__ int filter_of_unit(int unit) const { return filters_per_channel == 1 ? unit / groups : unit; }
  __host__ __device__ int channel_of_unit(int unit) const { return unit / groups; }
  // Of a unit, images that there are.
  __host__ __device__ int count(int unit) const {
    int const rest = present - unit % groups * images_per_filter;
    return rest < images ? rest : images;
  }
  __host__ __device__ std::int64_t image(int unit, int place) const {
    return first_image + unit % groups * images_per_filter + place;
  }
  // Images have places: that of an image of a unit is unit * images + the image's number there.
  __host__ __device__ int places() const { return units() * images; }
  // The first of `index`, `index` + `step` and so on whose place has an image, or one behind the last.
  __host__ __device__ int next_index(int index, int step) const {
    if (present == groups * images) return index;  // all have one
    while (index < places() && at(index, places()) % images >= count(at(index, places()) / images)) index += step;
    return index;
  }
};

// Words of one image: a line more than its slots have, so that those of eight images fall into different places of a
// cache.
inline constexpr int image_words = slots * points + 32, low_image_words = low_slots * points;

// Words of re and im. Of images: [place][slot][row_position], images of a unit being neighbours; of filters:
// [filter][slot][row lag + 127, and one of zeros]. `low`: likewise, for the first slots, what the rounded words lack
// (fp16). `exponents`: the powers of two that they carry, per image or filter.
struct Spectra {
  std::uint32_t* words = nullptr;
  std::uint32_t* low = nullptr;
  int* exponents = nullptr;

  // Of filters from this one on.
  Spectra from_filter(std::int64_t filter) const {
    return {words + filter * slots * row_lags, low ? low + filter * low_slots * row_lags : nullptr, exponents + filter};
  }
};

// Sums of products over images and rows, re and im: [filter][of even column lags, of odd ones][slot below 64][row lag +
// 128]. In fp32, or, where a filter has one group of images and a row of taps one row lag, as the fp16 words that they
// end as, with gradient_headroom. `exponents`: the powers of two that those of a filter carry, [parity of the chunk of
// images][filter], parities `stride` apart.
struct Sums {
  float2* values = nullptr;
  std::uint32_t* words = nullptr;
  int* exponents = nullptr;
  int stride = 0;

  Sums from_filter(std::int64_t filter) const {
    std::int64_t const at = filter * slots * row_lags;
    return {values ? values + at : nullptr, words ? words + at : nullptr, exponents + filter, stride};
  }
};

}  // namespace faltung::long_conv::cuda::spectral_passes
