// What the kernels of a call are told: views in the order of the plan's axes, lines and rows, their transforms and
// tables.
#pragma once
#include <algorithm>
#include <bit>

#include "long_conv/cuda/transformed/plan.hpp"

namespace faltung::long_conv::cuda::transformed {

class Arguments {
 public:
  Arguments(Problem const& p, Pieces const& pieces, void* workspace)
      : p_(p), plan_(plan_of(p, pieces)), buffers_(plan_, p.direction, workspace) {}

  Plan const& plan() const { return plan_; }

  ConstView ordered(ConstView view) const {
    auto const strides = view.strides.spatial;
    for (int a = 0; a < 3; ++a) view.strides.spatial[a] = strides[plan_.order[a]];
    return view;
  }
  View ordered(View view) const { return {view.data, ordered(ConstView(view)).strides}; }

  ImageRows image_rows(Chunk const& chunk, ConstView const& from, View const& to, ConstVector const& shortcut,
                       void* spectra) const {
    int const inner = plan_.active() == 3 ? plan_.middle_positions() : plan_.axes[1].extent;
    return {.transform = row_transform(plan_.precision),
            .rotation = rotation(plan_.precision),
            .frequencies = frequencies(plan_.precision),
            .spectrum_points = plan_.row_points(),
            .spectra = spectra,
            .image_stride = plan_.image_size,
            .rows0 = plan_.axes[0].extent,
            .rows1 = plan_.axes[1].extent,
            .pitch = inner,
            .by_rows = std::int64_t(plan_.axes[0].extent) * plan_.axes[1].extent,
            .by_rows1 = plan_.axes[1].extent,
            .extent = plan_.axes[2].extent,
            .chunk = chunk,
            .pieces = plan_.pieces,
            .by_inner_pieces = plan_.pieces.axes[1].count * plan_.pieces.axes[2].count,
            .by_last_pieces = plan_.pieces.axes[2].count,
            .from = from,
            .to = to,
            .adds = plan_.pieces.any(),
            .dtype = p_.x_dtype,
            .shortcut_dtype = p_.shortcut_dtype,
            .shortcut = shortcut};
  }

  FilterRows filter_rows(Chunk const& chunk, ConstView const& from, View const& to, Precision precision,
                         void* spectra) const {
    double const length =
        plan_.log2_points ? double(std::int64_t(1) << plan_.log2_points) : double(plan_.lengths[2].points());
    double const scale = 1.0 / (length * outer_points());
    return {.transform = row_transform(precision),
            .rotation = rotation(precision),
            .frequencies = frequencies(precision),
            .spectrum_points = plan_.row_points(),
            .spectra = spectra,
            .unit_stride = plan_.filter_size,
            .axes = {plan_.axes[0], plan_.axes[1], plan_.axes[2]},
            .by_rows = std::int64_t(plan_.axes[0].count()) * plan_.axes[1].count(),
            .by_rows1 = plan_.axes[1].count(),
            .by_tap_rows = plan_.axes[0].filter * plan_.axes[1].filter,
            .by_tap_rows1 = plan_.axes[1].filter,
            .chunk = chunk,
            .from = from,
            .to = to,
            .dtype = p_.k_dtype,
            .scale = scale};
  }

  static ComplexLines divided(ComplexLines lines) {
    lines.by_tiles = lines.tiles();
    lines.by_minor = lines.minor_head + lines.minor_tail;
    return lines;
  }

  Split split(int log2_points, void* spectra) const {
    auto const [rows, columns] = split_lengths(log2_points);
    return {.transform = interleaved_lines({1, rows}, 1 << columns, buffers_.split[rows]),
            .log2_columns = columns,
            .rotation = buffers_.split[rows].rotation,
            .twiddles = buffers_.split_twiddles[log2_points],
            .spectra = spectra,
            .stride = std::int64_t(1) << log2_points};
  }
  Split split(void* spectra) const { return split(plan_.log2_points, spectra); }

  // The inner half of a split axis: columns lie side by side.
  ComplexLines split_lines(int log2_points) const {
    auto const [rows, columns] = split_lengths(log2_points);
    return divided({.transform = contiguous_lines({1, columns}, buffers_.split[columns]),
                    .major_stride = std::int64_t(1) << log2_points,
                    .minor_stride = 0,
                    .point_stride = 1,
                    .line_stride = std::int64_t(1) << columns,
                    .lines = 1 << rows,
                    .by_tiles = {},
                    .by_minor = {},
                    .major = 0,
                    .head = 1 << columns,
                    .tail = 0,
                    .minor_head = 1,
                    .minor_tail = 0,
                    .minor_positions = 1,
                    .contiguous = true});
  }

  // The lines of the last axis of images (major_stride: that of an image), head points of it.
  ComplexLines last_lines(Precision precision) const {
    if (plan_.arrangement == Arrangement::split) return split_lines(plan_.log2_points);
    int const last = plan_.last();
    int const lines = line_count();
    return divided({.transform = interleaved_lines(plan_.lengths[last], lines, tables(precision, last)),
                    .major_stride = plan_.image_size,
                    .minor_stride = 0,
                    .point_stride = lines,
                    .line_stride = 1,
                    .lines = lines,
                    .by_tiles = {},
                    .by_minor = {},
                    .major = 0,
                    .head = plan_.axes[last].extent,
                    .tail = 0,
                    .minor_head = 1,
                    .minor_tail = 0,
                    .minor_positions = 1,
                    .contiguous = false});
  }

  // The lines of the middle one of three axes. `points` along it, `planes` along the outermost: of images, or of taps.
  ComplexLines middle_lines(Precision precision, int major, std::int64_t major_stride, TapAxis const& points,
                            TapAxis const& planes) const {
    std::int64_t const row = plan_.row_points();
    return divided({.transform = interleaved_lines(plan_.lengths[1], int(row), tables(precision, 1)),
                    .major_stride = major_stride,
                    .minor_stride = row * plan_.lengths[1].points(),
                    .point_stride = row,
                    .line_stride = 1,
                    .lines = int(row),
                    .by_tiles = {},
                    .by_minor = {},
                    .major = major,
                    .head = points.head,
                    .tail = points.tail,
                    .minor_head = planes.head,
                    .minor_tail = planes.tail,
                    .minor_positions = planes.positions,
                    .contiguous = false});
  }
  ComplexLines middle_lines_of_images(Chunk const& chunk) const {
    auto points = plan_.axes[1], planes = plan_.axes[0];
    points.head = points.extent, points.tail = 0, planes.head = planes.extent, planes.tail = 0;
    return middle_lines(plan_.precision, chunk.units * chunk.images, plan_.image_size, points, planes);
  }
  ComplexLines middle_lines_of_filters(Chunk const& chunk, Precision precision) const {
    return middle_lines(precision, chunk.units, plan_.filter_size, plan_.axes[1], plan_.axes[0]);
  }

  static Transform contiguous_lines(Length length, Buffers::LengthTables const& tables) {
    return {length, log2_block_lines(true, length), tables.twiddles, tables.odd_twiddles};
  }
  static Transform interleaved_lines(Length length, int lines, Buffers::LengthTables const& tables) {
    int const log2_most = int(std::bit_width(unsigned(lines))) - 1;
    return {length, std::min(log2_block_lines(false, length), log2_most), tables.twiddles, tables.odd_twiddles};
  }
  Buffers::LengthTables const& tables(Precision precision, int axis) const {
    return buffers_.lengths[precision == Precision::twice][axis];
  }
  void const* rotation(Precision precision) const { return tables(precision, 2).rotation; }
  int const* frequencies(Precision precision) const {
    return static_cast<int const*>(tables(precision, 2).frequencies);
  }
  Transform row_transform(Precision precision) const {
    return contiguous_lines(plan_.lengths[2], tables(precision, 2));
  }

  // Of the transforms over outer axes.
  double outer_points() const {
    return plan_.arrangement == Arrangement::grid ? double(plan_.lengths[0].points()) * plan_.lengths[1].points() : 1.0;
  }
  // Lines along the last axis of a grid.
  int line_count() const { return int(plan_.row_points()) * (plan_.active() == 3 ? plan_.lengths[1].points() : 1); }

 protected:
  Problem const& p_;
  Plan const plan_;
  Buffers const buffers_;
};

}  // namespace faltung::long_conv::cuda::transformed
