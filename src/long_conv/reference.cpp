// The specification of long_conv: plain loops over every output and every tap, double products and sums, one rounding.
#include "long_conv/reference.hpp"

#include <vector>

#include "core/dispatch.hpp"

namespace faltung::long_conv::reference {
namespace {

using Index = std::array<std::int64_t, 3>;

template <typename Body>
void for_each(Index const& extents, Body&& body) {
  Index i;
  for (i[0] = 0; i[0] < extents[0]; ++i[0])
    for (i[1] = 0; i[1] < extents[1]; ++i[1])
      for (i[2] = 0; i[2] < extents[2]; ++i[2]) body(i);
}

Index extents(Problem const& p) { return {p.axes[0].extent, p.axes[1].extent, p.axes[2].extent}; }
Index filters(Problem const& p) { return {p.axes[0].filter, p.axes[1].filter, p.axes[2].filter}; }

std::int64_t offset(Strides const& s, std::int64_t b, std::int64_t c, Index const& i) {
  return b * s.batch + c * s.channel + i[0] * s.spatial[0] + i[1] * s.spatial[1] + i[2] * s.spatial[2];
}

// The input point that tap m of output i meets; false where it lies outside the grid.
bool meets(Problem const& p, Index const& i, Index const& m, Index& j) {
  for (int axis = 0; axis < 3; ++axis) {
    auto const& [extent, filter, centre, boundary] = p.axes[axis];
    j[axis] = i[axis] + centre - m[axis];
    if (boundary == Boundary::circular) j[axis] = (j[axis] % extent + extent) % extent;
    if (j[axis] < 0 || j[axis] >= extent) return false;
  }
  return true;
}

double load(ConstView const& view, Dtype dtype, std::int64_t at) {
  return visit_dtype(dtype, [&]<typename T> { return double(to_float(static_cast<T const*>(view.data)[at])); });
}

double load(ConstVector const& vector, Dtype dtype, std::int64_t c) {
  return vector.data ? load(ConstView{vector.data, {}}, dtype, c * vector.stride) : 0.0;
}

void store(void* data, Dtype dtype, std::int64_t at, double value) {
  visit_dtype(dtype, [&]<typename T> { static_cast<T*>(data)[at] = round_to<T>(value); });
}

}  // namespace

void forward(Problem const& p, ForwardArgs const& a) {
  parallel_for(a.runtime.parallel, p.batch * p.channels, [&](std::int64_t begin, std::int64_t end) {
    for (auto plane = begin; plane < end; ++plane) {
      auto const b = plane / p.channels, c = plane % p.channels;
      double const shortcut = load(a.shortcut, p.shortcut_dtype, c);
      for_each(extents(p), [&](Index const& i) {
        double sum = a.shortcut.data ? shortcut * load(a.x, p.x_dtype, offset(a.x.strides, b, c, i)) : 0.0;
        for_each(filters(p), [&](Index const& m) {
          if (Index j; meets(p, i, m, j))
            sum += load(a.x, p.x_dtype, offset(a.x.strides, b, c, j)) *
                   load(a.k, p.k_dtype, offset(a.k.strides, b, c, m));
        });
        store(a.y.data, p.x_dtype, offset(a.y.strides, b, c, i), sum);
      });
    }
  });
}

void backward(Problem const& p, BackwardArgs const& a) {
  auto const points = extents(p);
  std::int64_t const count = points[0] * points[1] * points[2], taps = p.axes[0].filter * p.axes[1].filter * p.axes[2].filter;
  auto const flat = [](Index const& i, Index const& shape) { return (i[0] * shape[1] + i[1]) * shape[2] + i[2]; };
  parallel_for(a.runtime.parallel, p.channels, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> dx, dk;
    for (auto c = begin; c < end; ++c) {
      dk.assign(taps, 0.0);
      double dshortcut = 0, shortcut = load(a.shortcut, p.shortcut_dtype, c);
      for (std::int64_t b = 0; b < p.batch; ++b) {
        dx.assign(count, 0.0);
        if (p.sharing == FilterSharing::per_sample) dk.assign(taps, 0.0);
        for_each(points, [&](Index const& i) {
          double const dy = load(a.dy, p.x_dtype, offset(a.dy.strides, b, c, i));
          if (a.dshortcut.data) dshortcut += dy * load(a.x, p.x_dtype, offset(a.x.strides, b, c, i));
          if (a.shortcut.data) dx[flat(i, points)] += shortcut * dy;
          for_each(filters(p), [&](Index const& m) {
            Index j;
            if (!meets(p, i, m, j)) return;
            if (a.dx.data) dx[flat(j, points)] += dy * load(a.k, p.k_dtype, offset(a.k.strides, b, c, m));
            if (a.dk.data) dk[flat(m, filters(p))] += dy * load(a.x, p.x_dtype, offset(a.x.strides, b, c, j));
          });
        });
        if (a.dx.data)
          for_each(points, [&](Index const& i) {
            store(a.dx.data, p.x_dtype, offset(a.dx.strides, b, c, i), dx[flat(i, points)]);
          });
        if (a.dk.data && (p.sharing == FilterSharing::per_sample || b + 1 == p.batch))
          for_each(filters(p), [&](Index const& m) {
            store(a.dk.data, p.k_dtype, offset(a.dk.strides, b, c, m), dk[flat(m, filters(p))]);
          });
      }
      if (a.dshortcut.data) store(a.dshortcut.data, p.shortcut_dtype, c * a.dshortcut.stride, dshortcut);
    }
  });
}

}  // namespace faltung::long_conv::reference
