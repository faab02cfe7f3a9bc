// The passes of a call, chunk by chunk. Two axes: transforms along rows into the workspace, then along columns with the
// product and the way back in one kernel, then back along rows. A third axis lies between the two; one long axis is cut
// into rows and columns; one short axis needs a single kernel.
#pragma once
#include <cmath>

#include "cuda/device.hpp"
#include "long_conv/cuda/line/launch.hpp"
#include "long_conv/cuda/transformed/arguments.hpp"

namespace faltung::long_conv::cuda::transformed {

class Passes : public Arguments {
 public:
  Passes(Problem const& p, Runtime const& runtime, Pieces const& pieces = {})
      : Arguments(p, pieces, runtime.workspace), stream_(static_cast<cudaStream_t>(runtime.stream)) {
    build_tables(buffers_.tables, stream_);
  }

  // Filters to spectra of all axes.
  void transform_filters(Chunk const& chunk, ConstView const& k) const {
    auto const compute = plan_.filter_precision, stored = plan_.precision;
    if (plan_.arrangement == Arrangement::split) {
      transform_split(FilterSplit{split(buffers_.filters), filter_rows(chunk, k, {}, compute, buffers_.filters)},
                      stored, stream_);
    } else if (plan_.arrangement == Arrangement::row) {
      return transform_rows(filter_rows(chunk, k, {}, compute, buffers_.filters), compute, stored, stream_);
    } else {
      // The last of the passes stores what the product reads.
      auto* const between = plan_.precise_filters() ? buffers_.precise : buffers_.filters;
      bool const only = plan_.toeplitz && !has_middle();
      transform_rows(filter_rows(chunk, k, {}, compute, only ? buffers_.filters : between), compute,
                     only ? stored : compute, stream_);
      if (has_middle())
        transform_lines(middle_lines_of_filters(chunk, compute), between, plan_.toeplitz ? buffers_.filters : between,
                        compute, plan_.toeplitz ? stored : compute, stream_);
      if (plan_.toeplitz) return;
    }
    auto last = last_lines(compute);
    last.major_stride = plan_.filter_size;
    last.major = chunk.units;
    if (plan_.arrangement == Arrangement::grid) {
      auto const& axis = plan_.axes[plan_.last()];
      last.head = axis.head, last.tail = axis.tail;
    }
    transform_lines(last, plan_.precise_filters() ? buffers_.precise : buffers_.filters, buffers_.filters, compute,
                    stored, stream_);
  }

  // Images to spectra of all axes but the last.
  void transform_images(Chunk const& chunk, ConstView const& from, void* spectra) const {
    auto const rows = image_rows(chunk, from, {}, {}, spectra);
    if (plan_.arrangement == Arrangement::split)
      return transform_split(ImageSplit{split(spectra), rows}, plan_.precision, stream_);
    transform_rows(rows, plan_.precision, stream_);
    if (has_middle())
      transform_lines(middle_lines_of_images(chunk), spectra, spectra, plan_.precision, plan_.precision, stream_);
  }

  void restore_images(Chunk const& chunk, ConstView const& from, View const& to, ConstVector const& shortcut,
                      void* spectra) const {
    auto const rows = image_rows(chunk, from, to, shortcut, spectra);
    if (plan_.arrangement == Arrangement::split)
      return restore_split(ImageSplit{split(spectra), rows}, plan_.precision, stream_);
    if (has_middle()) restore_lines(middle_lines_of_images(chunk), spectra, plan_.precision, stream_);
    restore_rows(rows, plan_.precision, stream_);
  }

  void restore_filters(Chunk const& chunk, View const& dk) const {
    auto const rows = filter_rows(chunk, {}, dk, plan_.precision, buffers_.filter_gradients);
    if (plan_.arrangement == Arrangement::split)
      return restore_split(FilterSplit{split(buffers_.filter_gradients), rows}, plan_.precision, stream_);
    if (has_middle())
      restore_lines(middle_lines_of_filters(chunk, plan_.precision), buffers_.filter_gradients, plan_.precision,
                    stream_);
    restore_rows(rows, plan_.precision, stream_);
  }

  // to = from * k, or * the reversed k, + shortcut from.
  void convolve(ConstView const& from, ConstView const& k, ConstVector const& shortcut, View const& to,
                bool conjugate) const {
    each_unit_chunk([&](Chunk const& units) {
      transform_filters(units, k);
      each_image_chunk(units, [&](Chunk const& chunk, bool, bool) {
        if (plan_.arrangement == Arrangement::row)
          return multiply_rows(
              {image_rows(chunk, from, to, shortcut, nullptr), buffers_.filters, plan_.filter_size, conjugate},
              plan_.precision, stream_);
        transform_images(chunk, from, buffers_.images);
        if (plan_.toeplitz) {
          ToeplitzProduct const product{.images = buffers_.images,
                                        .filters = buffers_.filters,
                                        .image_stride = plan_.image_size,
                                        .filter_stride = plan_.filter_size,
                                        .lines = line_count(),
                                        .points = plan_.axes[plan_.last()].extent,
                                        .taps = plan_.axes[plan_.last()].head,
                                        .inner_points = plan_.toeplitz_pairs ? plan_.axes[1].extent : 1,
                                        .inner_taps = plan_.toeplitz_pairs ? plan_.axes[1].head : 1,
                                        .units = chunk.units,
                                        .images_per_unit = chunk.images,
                                        .twiddles = buffers_.toeplitz_blocks.twiddles};
          auto* const multiply = plan_.toeplitz_pairs    ? multiply_toeplitz_pairs
                                 : plan_.toeplitz_blocks ? multiply_toeplitz_blocks
                                                         : multiply_toeplitz;
          multiply(product, plan_.precision, stream_);
        } else {
          multiply_lines({last_lines(plan_.precision), buffers_.images, buffers_.filters, plan_.filter_size,
                          chunk.units, chunk.images, conjugate},
                         plan_.precision, stream_);
        }
        restore_images(chunk, from, to, shortcut, buffers_.images);
      });
    });
  }

  // to = from * k + shortcut from over one causal axis, no output knowing a later input.
  void convolve_causally(ConstView const& from, ConstView const& k, ConstVector const& shortcut, View const& to) const {
    auto const copy_tables = [&](Precision precision, auto& args) {
      for (int log2 = 0; log2 < most_log2_segment; ++log2) {
        args.twiddles[log2] = buffers_.causal[precision == Precision::twice][log2].twiddles;
        args.rotations[log2] = buffers_.causal[precision == Precision::twice][log2].rotation;
      }
    };
    // Axes of one point have their one tap at the centre.
    auto nearest = k;
    std::int64_t const centre =
        plan_.axes[0].centre * k.strides.spatial[0] + plan_.axes[1].centre * k.strides.spatial[1];
    nearest.data = static_cast<char const*>(k.data) + centre * std::int64_t(size_of(p_.k_dtype));
    each_unit_chunk([&](Chunk const& units) {
      auto taps = filter_rows(units, k, {}, plan_.filter_precision, buffers_.filters);
      taps.axes[2].tail = 0, taps.scale = 1;
      if (!plan_.direct_segments) {
        CausalFilters filters{.rows = taps, .twiddles = {}, .rotations = {}, .log2_segment = plan_.log2_segment};
        copy_tables(plan_.filter_precision, filters);
        transform_causal_filters(filters, plan_.filter_precision, plan_.precision, stream_);
      }
      each_image_chunk(units, [&](Chunk const& chunk, bool, bool) {
        if (plan_.direct_segments) {
          add_causal_levels(chunk, taps, from);
          return multiply_segments(chunk, from, nearest, shortcut, to);
        }
        CausalRows rows{.rows = image_rows(chunk, from, to, shortcut, nullptr),
                        .k = nearest,
                        .k_dtype = p_.k_dtype,
                        .taps = plan_.axes[2].filter,
                        .filters = buffers_.filters,
                        .filter_stride = plan_.filter_size,
                        .sums = nullptr,
                        .sum_stride = std::int64_t(1) << plan_.log2_points,
                        .twiddles = {},
                        .rotations = {},
                        .log2_segment = plan_.log2_segment,
                        .segments = int(((plan_.axes[2].extent - 1) >> plan_.log2_segment) + 1)};
        copy_tables(plan_.precision, rows);
        if (plan_.log2_points > plan_.log2_segment) {
          add_causal_levels(chunk, taps, from);
          rows.sums = buffers_.sums;
        }
        multiply_causal_rows(rows, plan_.precision, stream_);
      });
    });
  }

  // dk, and dx where asked for.
  void gradients(BackwardArgs const& a) const {
    auto const dy = ordered(a.dy), x = ordered(a.x), k = ordered(a.k);
    auto const dx = ordered(a.dx), dk = ordered(a.dk);
    int const axis = plan_.last();
    bool const split = plan_.arrangement == Arrangement::split;
    each_unit_chunk([&](Chunk const& units) {
      if (dx.data) transform_filters(units, k);
      each_image_chunk(units, [&](Chunk const& chunk, bool first, bool last) {
        transform_images(chunk, x, buffers_.images);
        transform_images(chunk, dy, buffers_.gradients);
        auto const lines = last_lines(plan_.precision);
        gradient_lines({.lines = lines,
                        .x = buffers_.images,
                        .dy = buffers_.gradients,
                        .filters = buffers_.filters,
                        .gradients = buffers_.filter_gradients,
                        .filter_stride = plan_.filter_size,
                        .head = split ? lines.head : plan_.axes[axis].head,
                        .tail = split ? 0 : plan_.axes[axis].tail,
                        .units = chunk.units,
                        .images_per_unit = chunk.images,
                        .dx = dx.data != nullptr,
                        .first = first,
                        .last = last},
                       plan_.precision, stream_);
        if (dx.data) restore_images(chunk, dy, dx, a.shortcut, buffers_.gradients);
      });
      restore_filters(units, dk);
    });
  }

  void row_gradient(BackwardArgs const& a) const {
    each_unit_chunk([&](Chunk chunk) {
      chunk.images = int(plan_.images);
      chunk.by_images = plan_.images;
      auto rows = image_rows(chunk, ordered(a.x), {}, {}, nullptr);
      // A line is a unit: few of them are spread over all multiprocessors.
      while (rows.transform.threads() > 32 &&
             chunk.units >> rows.transform.log2_lines < 2 * faltung::cuda::multiprocessors() &&
             rows.transform.log2_lines > 0)
        --rows.transform.log2_lines;
      filter_gradient({rows, ordered(a.dy), filter_rows(chunk, {}, ordered(a.dk), plan_.precision, nullptr)},
                      plan_.precision, stream_);
    });
  }

 private:
  // body(chunk of units with the first of their images)
  template <typename Body>
  void each_unit_chunk(Body&& body) const {
    for (std::int64_t unit = 0; unit < plan_.units; unit += plan_.chunk_units)
      body(Chunk{.channels = p_.channels,
                 .first_sample = unit / p_.channels,
                 .by_pieces = plan_.pieces.count(),
                 .first_channel = unit % p_.channels,
                 .units = int(std::min(plan_.chunk_units, plan_.units - unit))});
  }
  // body(chunk, whether it is the first and the last of its units)
  template <typename Body>
  void each_image_chunk(Chunk chunk, Body&& body) const {
    for (std::int64_t image = 0; image < plan_.images; image += plan_.chunk_images) {
      chunk.first_image = int(image);
      chunk.images = int(std::min(plan_.chunk_images, plan_.images - image));
      chunk.by_images = chunk.images;
      body(chunk, image == 0, image + chunk.images == plan_.images);
    }
  }

  // Segments of a causal axis by direct products on tensor cores, added to the sums of the levels: those of an image
  // are the images of a call of cuda.line, and a last one that is shorter is a call of its own.
  void multiply_segments(Chunk const& chunk, ConstView const& from, ConstView const& k, ConstVector const& shortcut,
                         View const& to) const {
    std::int64_t const segment = std::int64_t(1) << plan_.log2_segment, extent = plan_.axes[2].extent;
    auto const moved = [](auto view, Dtype dtype, std::int64_t offset, std::int64_t batch) {
      view.data = offset_by(view.data, offset * std::int64_t(size_of(dtype)));
      view.strides.batch = batch;
      return view;
    };
    // Units of one sample at a time: those of shared filters have all their images.
    for (std::int64_t unit = 0, count; unit < chunk.units; unit += count) {
      std::int64_t const channel = (chunk.first_channel + unit) % p_.channels;
      count = std::min(chunk.units - unit, p_.channels - channel);
      auto near = shortcut;
      if (near.data) near.data = offset_by(near.data, channel * near.stride * std::int64_t(size_of(p_.shortcut_dtype)));
      for (int image = 0; image < chunk.images; ++image) {
        std::int64_t const sample =
            chunk.first_sample + (chunk.first_channel + unit) / p_.channels + chunk.first_image + image;
        auto const offset = [&](Strides const& s, std::int64_t point) {
          return sample * s.batch + channel * s.channel + point * s.spatial[2];
        };
        for (std::int64_t first = 0; first < extent;) {
          bool const whole = extent - first >= segment;
          std::int64_t const segments = whole ? (extent - first) / segment : 1,
                             points = whole ? segment : extent - first;
          line::Sums const sums{
              static_cast<float const*>(buffers_.sums) + ((unit * chunk.images + image) << plan_.log2_points) + first,
              segment, std::int64_t(chunk.images) << plan_.log2_points};
          line::convolve(line_problem(p_, segments, count, points), line::Turn::forward,
                         moved(from, p_.x_dtype, offset(from.strides, first), segment * from.strides.spatial[2]),
                         moved(k, p_.k_dtype, offset(k.strides, 0), 0), near, sums,
                         moved(to, p_.x_dtype, offset(to.strides, first), segment * to.strides.spatial[2]), stream_);
          first += segments * points;
        }
      }
    }
  }
  static void const* offset_by(void const* data, std::int64_t bytes) { return static_cast<char const*>(data) + bytes; }
  static void* offset_by(void* data, std::int64_t bytes) { return static_cast<char*>(data) + bytes; }

  // The levels of a causal axis whose blocks are whole segments.
  void add_causal_levels(Chunk const& chunk, FilterRows taps, ConstView const& from) const {
    std::size_t const real = plan_.precision == Precision::twice ? sizeof(double) : sizeof(float);
    faltung::cuda::check(
        cudaMemsetAsync(buffers_.sums, 0, real * (std::size_t(chunk.units) * chunk.images << plan_.log2_points),
                        stream_),
        "cuda.transformed sums");
    for (int log2 = plan_.log2_segment; log2 < plan_.log2_points; ++log2) {
      int const points = 1 << log2;
      if (points >= plan_.axes[2].extent) break;
      // Whole pairs, and a last block behind which some of the image is left.
      int const pieces = (plan_.axes[2].extent + points - 1) / points / 2;
      taps.axes[2].positions = taps.axes[2].head = 2 * points;
      taps.spectra = buffers_.level_filters;
      taps.scale = std::ldexp(1.0, -log2);
      transform_split(FilterSplit{split(log2, buffers_.level_filters), taps}, plan_.precision, stream_);
      auto lines = split_lines(log2);
      lines.major = chunk.units;
      transform_lines(lines, buffers_.level_filters, buffers_.level_filters, plan_.precision, plan_.precision, stream_);
      ImageSplit const images{.split = split(log2, buffers_.images),
                              .rows = image_rows(chunk, from, {}, {}, buffers_.images),
                              .pieces = pieces,
                              .piece_points = points,
                              .sums = buffers_.sums,
                              .sum_stride = std::int64_t(1) << plan_.log2_points};
      transform_split(images, plan_.precision, stream_);
      multiply_lines({split_lines(log2), buffers_.images, buffers_.level_filters, std::int64_t(1) << log2, chunk.units,
                      chunk.images * pieces, false},
                     plan_.precision, stream_);
      restore_split(images, plan_.precision, stream_);
    }
  }

  // A third axis that is transformed, between the rows and that of the product.
  bool has_middle() const { return plan_.active() == 3 && !plan_.toeplitz_pairs; }

  cudaStream_t const stream_;
};

}  // namespace faltung::long_conv::cuda::transformed
