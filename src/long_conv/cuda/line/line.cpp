// Which problems cuda.line takes, and how it divides them.
#include "long_conv/cuda/line/line.hpp"

#include "core/error.hpp"
#include "cuda/device.hpp"
#include "long_conv/cuda/line/choice.hpp"
#include "long_conv/cuda/line/launch.hpp"
#include "long_conv/cuda/reduction.hpp"
#include "long_conv/cuda/toeplitz/choice.hpp"

namespace faltung::long_conv::cuda::line {
namespace {

constexpr int most_points = 1 << 16;

// With the images that fit when `bytes_of` says what a shape takes.
template <typename Bytes>
std::optional<Shape> fitted(Problem const& p, Bytes&& bytes_of) {
  bool const per_sample = p.sharing == FilterSharing::per_sample;
  int log2_images = 0;
  if (!per_sample)
    while (1 << log2_images < std::min<std::int64_t>(columns, p.batch)) ++log2_images;
  Shape shape{toeplitz::make_lag_axis(p.axes[2]), p.batch, p.channels, log2_images, per_sample};
  std::size_t const budget = std::size_t(faltung::cuda::shared_memory_budget());
  while (shape.log2_images > 0 && bytes_of(shape) > budget) --shape.log2_images;
  return bytes_of(shape) <= budget ? std::optional(shape) : std::nullopt;
}

// Products of a point, on average: the lags that have a tap, weighted by the pairs of points that have them.
double products_per_point(Problem const& p) {
  auto const axis = toeplitz::make_lag_axis(p.axes[2]);
  double const extent = double(axis.extent), low = axis.low, high = axis.high;
  if (low > high) return 0;
  auto const pairs = [&](double lags) { return lags * extent - lags * (lags - 1) / 2; };  // of lags 0 .. lags - 1
  if (low >= 0) return (pairs(high + 1) - pairs(low)) / extent;
  if (high < 0) return (pairs(1 - low) - pairs(-high)) / extent;
  return (pairs(high + 1) + pairs(1 - low) - extent) / extent;
}

// Up to which direct products are faster than transforms. B 8, C 768, bf16, y / dx and dk, ms: 4096 causal points here
// 0.220 / 0.474, by cuda.transformed 0.921 / 0.610; 8192 with B 4 0.412 / 1.14 and 1.14 / 0.80; 2048 points and 4095
// taps 0.110 / 0.267 and 0.120 / 0.285.
double most_products(Problem const& p) {
  bool const exact = p.direction == Direction::forward && p.axes[2].boundary == Boundary::causal;
  return (exact ? 5120 : 2560) / (is_split(p) ? 2 : 1);
}

}  // namespace

std::optional<Shape> product_shape(Problem const& p) {
  int const parts = is_split(p) ? 2 : 1;
  return fitted(p, [&](Shape const& shape) {
    return std::max(product_bytes(shape, parts), product_bytes(shape.transposed(), parts));
  });
}

std::optional<Shape> gradient_shape(Problem const& p) { return fitted(p, gradient_bytes); }

dim3 grid_of(Problem const& p, std::int64_t per_block) {
  constexpr std::int64_t most_columns = 1 << 30, most_rows = 65535;
  return dim3(unsigned(std::min(p.channels, most_columns)),
              unsigned(std::min((p.batch + per_block - 1) / per_block, most_rows)));
}

Occupancy occupancy_of(Shape const& shape, int items, std::size_t shared_bytes, int registers, int most) {
  constexpr int partitions = 4, partition_registers = 1 << 14,
                reserved_bytes = 1024;  // of a multiprocessor, of a block
  bool const falling = 2 * (shape.axis.high - shape.axis.low) > shape.axis.extent;
  int const by_memory = int((std::size_t(faltung::cuda::shared_memory_budget()) + reserved_bytes) /
                            (shared_bytes + reserved_bytes)),
            all_warps = partitions * (partition_registers / (32 * registers));
  Occupancy best{1, 1};
  double most_at_work = 0;
  for (int warps = 1; warps <= std::min(items, most); ++warps) {
    int const blocks = std::min(by_memory, all_warps / warps);
    int longest = 0;  // work of a warp
    for (int warp = 0; warp < warps; ++warp) {
      int work = 0;
      for (int turn = 0; turn * warps < items; ++turn) {
        int const left = std::max(0, items - item_of(turn, warp, warps));
        work += falling ? left : left > 0;
      }
      longest = std::max(longest, work);
    }
    double const at_work = blocks * (falling ? 0.5 * items * (items + 1) : items) / longest;
    if (at_work > 1.01 * most_at_work) best = {warps, blocks}, most_at_work = at_work;
  }
  return best;
}

char const* reject(Problem const& p) {
  if (p.x_dtype != FALTUNG_BF16 && p.x_dtype != FALTUNG_F16) return "takes inputs of 16 bits";
  if (p.k_dtype != p.x_dtype && !(p.x_dtype == FALTUNG_BF16 && p.k_dtype == FALTUNG_F32))
    return "takes filters of the dtype of x, fp32 with bfloat16";
  for (int a = 0; a < 2; ++a)
    if (p.axes[a].extent != 1 || p.axes[a].filter != 1 || p.axes[a].centre != 0) return "takes one axis";
  auto const& axis = p.axes[2];
  if (axis.extent > most_points) return "takes up to 65536 points";
  if (axis.boundary == Boundary::circular && axis.filter > axis.extent)
    return "takes circular filters of at most the extent: longer ones add up taps";
  if (!product_shape(p) || (p.direction == Direction::backward && !gradient_shape(p)))
    return "an image and its filter exceed the device's shared memory";
  return nullptr;
}

char const* prefer_others(Problem const& p) {
  return products_per_point(p) > most_products(p) ? "transforms are faster for so many products a point" : nullptr;
}

std::string policy(Problem const& p) {
  auto const product = *product_shape(p);
  auto const text = [](Shape const& shape, std::size_t bytes) {
    return concatenate(shape.images(), " x ", shape.segments(), " columns of images and stretches, ", bytes,
                       " bytes of shared memory");
  };
  std::string result =
      concatenate("mma.sync m16n8k16 of ", name_of(p.x_dtype), is_split(p) ? ", filters in two parts" : "",
                  ", fp32 sums; chunks of ", chunk, " points, ", text(product, product_bytes(product, 1)));
  if (p.direction == Direction::forward) return result;
  auto const gradient = *gradient_shape(p);
  return result + "; dk: " + text(gradient, gradient_bytes(gradient));
}

void forward(Problem const& p, ForwardArgs const& a) {
  faltung::cuda::CurrentDevice const device(a.runtime.device_index);
  convolve(p, Turn::forward, a.x, a.k, a.shortcut, {}, a.y, static_cast<cudaStream_t>(a.runtime.stream));
}

void backward(Problem const& p, BackwardArgs const& a) {
  faltung::cuda::CurrentDevice const device(a.runtime.device_index);
  auto const stream = static_cast<cudaStream_t>(a.runtime.stream);
  if (a.dx.data && a.dk.data && is_short(p)) {
    input_and_filter_gradient(p, a, stream);
  } else {
    if (a.dx.data) convolve(p, Turn::transposed, a.dy, a.k, a.shortcut, {}, a.dx, stream);
    if (a.dk.data) filter_gradient(p, a.dy, a.x, a.dk, stream);
  }
  if (a.dshortcut.data) shortcut_gradient(p, a, stream);
}

}  // namespace faltung::long_conv::cuda::line
