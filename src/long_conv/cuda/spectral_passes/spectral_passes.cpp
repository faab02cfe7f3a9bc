// Which problems cuda.spectral_passes takes, how much of a call goes through the workspace at once, and in what order.
#include "long_conv/cuda/spectral_passes/spectral_passes.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "cuda/device.hpp"
#include "long_conv/cuda/reduction.hpp"
#include "long_conv/cuda/spectral_passes/launch.hpp"
#include "long_conv/cuda/toeplitz/choice.hpp"

namespace faltung::long_conv::cuda::spectral_passes {
namespace {

// Of spectra of images, which pass through the workspace in chunks, and of filters and their sums, in larger ones.
constexpr std::size_t image_bytes = std::size_t(1024) << 20, filter_bytes = std::size_t(320) << 20;

// Sizes of a call's chunks, and where the parts of its workspace lie: all null with a null base, `bytes` their size in
// any case.
struct Plan {
  std::int64_t groups;           // of images, 8 or 1 each
  std::int64_t filter_channels;  // channels whose filters are in the workspace; those of samples: as many as images
  Chunk chunk;                   // the first, and the largest
  Spectra images, other;         // dy and x, or x alone
  Spectra filters;
  Sums sums;
  std::size_t bytes = 0;

  Plan(Problem const& p, void* base) {
    bool const backward = p.direction == Direction::backward, fp16 = p.x_dtype == FALTUNG_F16,
               shared = p.sharing == FilterSharing::shared;
    int const per_filter = shared ? spectral_passes::images : 1;
    int const places = int(std::clamp<std::int64_t>(p.batch, 1, per_filter));
    groups = std::max<std::int64_t>(1, (p.batch + per_filter - 1) / per_filter);
    std::size_t const words = slots + (fp16 ? low_slots : 0);  // of a row lag
    std::size_t const image = sizeof(std::uint32_t) * (image_words + (fp16 ? low_image_words : 0));
    bool const fp16_sums = (!shared || groups == 1) && p.axes[1].boundary != Boundary::circular;
    std::size_t const sum_bytes = (fp16_sums ? sizeof(std::uint32_t) : sizeof(float2)) * slots * row_lags;
    std::size_t const filter = sizeof(std::uint32_t) * words * row_lags + (backward ? sum_bytes : 0);
    std::size_t const unit = image * places * (backward ? 2 : 1) + (shared ? 0 : filter);
    auto const all_channels = std::max<std::int64_t>(1, p.channels);
    auto const chunk_groups = std::clamp<std::int64_t>(image_bytes / unit, 1, groups);
    auto const channels = std::clamp<std::int64_t>(image_bytes / (unit * chunk_groups), 1, all_channels);
    filter_channels = shared ? std::clamp<std::int64_t>(filter_bytes / filter, channels, all_channels) : channels;
    chunk = {.first_channel = 0,
             .first_image = 0,
             .channels = int(channels),
             .groups = int(chunk_groups),
             .images = places,
             .images_per_filter = per_filter,
             .present = 0,
             .filters_per_channel = shared ? 1 : int(chunk_groups)};
    auto const take = [&](std::size_t size) -> void* {
      auto* const at = base ? static_cast<char*>(base) + bytes : nullptr;
      bytes += (size + 255) / 256 * 256;
      return at;
    };
    auto const take_spectra = [&](std::size_t count, std::size_t words_of_each, std::size_t low_words_of_each) {
      Spectra spectra;
      spectra.words = static_cast<std::uint32_t*>(take(sizeof(std::uint32_t) * count * words_of_each));
      if (fp16) spectra.low = static_cast<std::uint32_t*>(take(sizeof(std::uint32_t) * count * low_words_of_each));
      spectra.exponents = static_cast<int*>(take(sizeof(int) * count));
      return spectra;
    };
    std::size_t const filter_count = filter_channels * chunk.filters_per_channel;
    images = take_spectra(std::size_t(chunk.units()) * places, image_words, low_image_words);
    filters = take_spectra(filter_count, slots * row_lags, low_slots * row_lags);
    if (!backward) return;
    other = take_spectra(std::size_t(chunk.units()) * places, image_words, low_image_words);
    void* const of_sums = take(sum_bytes * filter_count);
    if (fp16_sums)
      sums.words = static_cast<std::uint32_t*>(of_sums);
    else
      sums.values = static_cast<float2*>(of_sums);
    sums.exponents = static_cast<int*>(take(2 * sizeof(int) * filter_count));
    sums.stride = int(filter_count);
  }

  // Before the images of filters, filters_begin(chunk of all these filters); then images(chunk, its first filter in the
  // workspace, its index among the chunks of its filters); then filters_end(the same, last index).
  template <typename Begin, typename Images, typename End>
  void visit(Problem const& p, Begin const& filters_begin, Images const& images, End const& filters_end) const {
    for (std::int64_t first = 0; first < p.channels; first += filter_channels) {
      std::int64_t const end = std::min(p.channels, first + filter_channels);
      bool const shared = chunk.images_per_filter > 1;
      Chunk all = chunk;
      all.first_channel = first;
      all.channels = int(end - first);
      all.groups = 1;
      if (shared) filters_begin(all);
      int last = 0;
      for (std::int64_t group = 0; group < groups; group += chunk.groups)
        for (std::int64_t channel = first; channel < end; channel += chunk.channels) {
          Chunk part = chunk;
          part.first_channel = channel;
          part.channels = int(std::min<std::int64_t>(chunk.channels, end - channel));
          part.groups = int(std::min<std::int64_t>(chunk.groups, groups - group));
          part.first_image = group * chunk.images_per_filter;
          part.present = int(std::min<std::int64_t>(p.batch - part.first_image, part.groups * chunk.images_per_filter));
          if (!shared) part.filters_per_channel = part.groups;
          if (!shared) filters_begin(part);
          last = shared ? int(group / chunk.groups) : 0;
          images(part, channel - first, last);
          if (!shared) filters_end(part, last);
        }
      if (shared) filters_end(all, last);
    }
  }
};

}  // namespace

char const* reject(Problem const& p) {
  if (p.x_dtype != FALTUNG_BF16 && p.x_dtype != FALTUNG_F16) return "takes inputs of 16 bits";
  if (p.k_dtype != p.x_dtype) return "takes filters of the dtype of x";
  if (p.axes[0].extent != 1 || p.axes[0].filter != 1 || p.axes[0].centre != 0 || p.rank < 2) return "takes two axes";
  auto const rows = p.axes[1].extent, columns = p.axes[2].extent;
  if (rows > points || columns > points) return "takes up to 128 points an axis";
  for (auto const& axis : p.axes) {
    if (axis.boundary == Boundary::causal) return "a scale that looks at a whole image is not causal to the bit";
    if (axis.boundary == Boundary::circular && axis.filter > axis.extent)
      return "takes circular filters of at most the extent: longer ones add up taps";
    if (axis.filter >= std::int64_t(1) << 24) return "takes fewer than 2^24 taps an axis";
  }
  return nullptr;
}

char const* prefer_others(Problem const& p) {
  auto const rows = p.axes[1].extent, columns = p.axes[2].extent;
  if (rows <= 48 || columns <= 48) return "other methods are faster up to 48 points an axis";
  // 8 x 192 images, forward and backward, ms: 0.85 on 128 x 49 points, 0.68 on 96 x 49, where cuda.transformed takes
  // 0.63 and 0.58; 0.61 on 128 x 56 (0.63), 0.37 on 49 x 128 (0.55).
  if (columns < 64 && columns % 8 != 0) return "other methods are faster on narrow rows that are not aligned";
  return nullptr;
}

std::string policy(Problem const& p) {
  Plan const plan(p, nullptr);
  return concatenate("DFT of ", 2 * points,
                     " points over columns, Toeplitz products over rows, fp16 spectra under powers ",
                     "of two per image and per filter in a workspace, fp32 sums",
                     p.x_dtype == FALTUNG_F16 ? ", constants in two halves" : "", "; ", plan.chunk.channels,
                     plan.chunk.channels == 1 ? " channel" : " channels", " with ", plan.chunk.groups,
                     plan.chunk.groups == 1 ? " group" : " groups", " of ", plan.chunk.images, " images at a time, ",
                     plan.bytes, " bytes of workspace");
}

std::size_t workspace(Problem const& p) { return Plan(p, nullptr).bytes; }

void forward(Problem const& p, ForwardArgs const& a) {
  faltung::cuda::CurrentDevice const device(a.runtime.device_index);
  auto const stream = static_cast<cudaStream_t>(a.runtime.stream);
  Plan const plan(p, a.runtime.workspace);
  plan.visit(
      p, [&](Chunk const& chunk) { launch_filter_spectra(p, chunk, Product::plain, a.k, plan.filters, stream); },
      [&](Chunk const& chunk, std::int64_t first_filter, int) {
        auto const filters = plan.filters.from_filter(first_filter);
        launch_image_spectra(p, chunk, a.x, plan.images, stream);
        launch_products(p, chunk.backwards(), plan.images, filters, stream);
        launch_image_grids(p, chunk, plan.images, filters.exponents, a.x, a.shortcut, a.y, stream);
      },
      [](Chunk const&, int) {});
}

void backward(Problem const& p, BackwardArgs const& a) {
  faltung::cuda::CurrentDevice const device(a.runtime.device_index);
  auto const stream = static_cast<cudaStream_t>(a.runtime.stream);
  if (a.dx.data || a.dk.data) {
    Plan const plan(p, a.runtime.workspace);
    plan.visit(
        p,
        [&](Chunk const& chunk) {
          if (a.dx.data) launch_filter_spectra(p, chunk, Product::transposed, a.k, plan.filters, stream);
        },
        [&](Chunk const& chunk, std::int64_t first_filter, int index) {
          auto const filters = plan.filters.from_filter(first_filter);
          launch_image_spectra(p, chunk, a.dy, plan.images, stream);
          if (a.dk.data) {
            launch_image_spectra(p, chunk, a.x, plan.other, stream);
            launch_filter_sums(p, chunk.backwards(), plan.images, plan.other, plan.sums.from_filter(first_filter),
                               index == 0, index % 2, stream);
          }
          if (!a.dx.data) return;
          launch_products(p, chunk.backwards(), plan.images, filters, stream);
          launch_image_grids(p, chunk, plan.images, filters.exponents, a.dy, a.shortcut, a.dx, stream);
        },
        [&](Chunk const& chunk, int last) {
          if (a.dk.data) launch_filter_taps(p, chunk, plan.sums, last % 2, a.dk, stream);
        });
  }
  if (a.dshortcut.data) shortcut_gradient(p, a, stream);
}

}  // namespace faltung::long_conv::cuda::spectral_passes
