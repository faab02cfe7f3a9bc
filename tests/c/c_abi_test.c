/* The header is C99, links from C, and keeps its values: statuses, enumerators, sizes, defaults, errors in words. */
#include <stdio.h>
#include <string.h>

#include "faltung/faltung.h"

static int failures = 0;

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                             \
    }                                                                         \
  } while (0)

static faltung_tensor tensor(void* data, int32_t rank, int64_t const* shape) {
  faltung_tensor t;
  int64_t stride = 1;
  int i;
  memset(&t, 0, sizeof t);
  t.data = data;
  t.dtype = FALTUNG_F32;
  t.rank = rank;
  for (i = rank - 1; i >= 0; --i) {
    t.shape[i] = shape[i];
    t.strides[i] = stride;
    stride *= shape[i];
  }
  return t;
}

/* Values are part of the ABI: a program compiled against an older header passes them as numbers. */
static void values(void) {
  CHECK(FALTUNG_OK == 0 && FALTUNG_INVALID_ARGUMENT == 1 && FALTUNG_INVALID_TYPE == 2 && FALTUNG_UNSUPPORTED == 3);
  CHECK(FALTUNG_OUT_OF_MEMORY == 4 && FALTUNG_RUNTIME_ERROR == 5);
  CHECK(FALTUNG_F64 == 0 && FALTUNG_F32 == 1 && FALTUNG_F16 == 2 && FALTUNG_BF16 == 3 && FALTUNG_I32 == 4 &&
        FALTUNG_I64 == 5);
  CHECK(FALTUNG_CPU == 0 && FALTUNG_CUDA == 1);
  CHECK(FALTUNG_ZERO == 0 && FALTUNG_CIRCULAR == 1 && FALTUNG_CAUSAL == 2);
  CHECK(FALTUNG_CHANNELS_FIRST == 0 && FALTUNG_CHANNELS_LAST == 1 && FALTUNG_FORWARD == 0 && FALTUNG_BACKWARD == 1);
  CHECK(FALTUNG_MAX_RANK == 6 && FALTUNG_MAX_SPATIAL_RANK == 3);
  CHECK(sizeof(faltung_dtype) == 4 && sizeof(faltung_status) == 4);
  if (sizeof(void*) == 8) {
    CHECK(sizeof(faltung_tensor) == 120 && offsetof(faltung_tensor, shape) == 24 &&
          offsetof(faltung_tensor, strides) == 72);
    CHECK(offsetof(faltung_long_conv_options, size) == 0 && offsetof(faltung_long_conv_options, centre) == 24);
  }
}

static void defaults(void) {
  faltung_long_conv_options options;
  int i;
  memset(&options, 0x5a, sizeof options);
  faltung_long_conv_options_default(&options);
  CHECK(options.size == sizeof options);
  CHECK(options.layout == FALTUNG_CHANNELS_FIRST);
  for (i = 0; i < FALTUNG_MAX_SPATIAL_RANK; ++i)
    CHECK(options.boundary[i] == FALTUNG_ZERO && options.centre[i] == FALTUNG_DEFAULT_CENTRE);
  CHECK(!options.stream && !options.workspace && options.workspace_size == 0);
  CHECK(!options.parallel_for && !options.parallel_context && !options.implementation);
  faltung_long_conv_options_default(NULL);
}

static int close_to(float const* got, float a, float b, float c, float d) {
  float const expected[4] = {a, b, c, d};
  int i;
  for (i = 0; i < 4; ++i)
    if (!(got[i] - expected[i] < 1e-3f && expected[i] - got[i] < 1e-3f)) return 0;
  return 1;
}

static void convolution(void) {
  float x[4] = {1, 2, 3, 4}, k[3] = {1, 10, 100}, y[4] = {-1, -1, -1, -1};
  int64_t const x_shape[3] = {1, 1, 4}, k_shape[2] = {1, 3};
  faltung_tensor tx = tensor(x, 3, x_shape), tk = tensor(k, 2, k_shape), ty = tensor(y, 3, x_shape);
  faltung_long_conv_options options;
  CHECK(faltung_long_conv_forward(&tx, &tk, NULL, &ty, NULL) == FALTUNG_OK);
  CHECK(close_to(y, 12, 123, 234, 340));
  faltung_long_conv_options_default(&options);
  options.boundary[0] = FALTUNG_CAUSAL;
  CHECK(faltung_long_conv_forward(&tx, &tk, NULL, &ty, &options) == FALTUNG_OK);
  CHECK(close_to(y, 1, 12, 123, 234));
  options.boundary[0] = FALTUNG_CIRCULAR;
  CHECK(faltung_long_conv_forward(&tx, &tk, NULL, &ty, &options) == FALTUNG_OK);
  CHECK(close_to(y, 412, 123, 234, 341));
}

static void errors(void) {
  float x[4] = {1, 2, 3, 4};
  int64_t const x_shape[3] = {1, 1, 4}, k_shape[2] = {2, 2};
  faltung_tensor tx = tensor(x, 3, x_shape), tk = tensor(x, 2, k_shape);
  faltung_tensor ty = tx;
  CHECK(strcmp(faltung_last_error(), "") == 0);
  CHECK(faltung_long_conv_forward(&tx, &tk, NULL, &ty, NULL) == FALTUNG_INVALID_ARGUMENT);
  CHECK(strstr(faltung_last_error(), "k has 2 channels, x has 1") != NULL);
  tk.dtype = FALTUNG_I32;
  CHECK(faltung_long_conv_forward(&tx, &tk, NULL, &ty, NULL) == FALTUNG_INVALID_TYPE);
  CHECK(strstr(faltung_last_error(), "int32") != NULL);
  CHECK(faltung_set_num_threads(-1) == FALTUNG_INVALID_ARGUMENT);
  CHECK(strstr(faltung_last_error(), "-1") != NULL);
}

static void information(void) {
  char text[1024];
  int64_t needed = 0;
  CHECK(faltung_info(text, (int64_t)sizeof text, &needed) == FALTUNG_OK);
  CHECK(needed == (int64_t)strlen(text) + 1);
  CHECK(strstr(text, "version: ") == text && strstr(text, faltung_version()) != NULL);
  CHECK(strstr(text, "simd: ") != NULL && strstr(text, "threads: ") != NULL);
  CHECK(faltung_set_num_threads(3) == FALTUNG_OK && faltung_num_threads() == 3);
  CHECK(faltung_set_num_threads(0) == FALTUNG_OK && faltung_num_threads() >= 1);
}

int main(void) {
  errors(); /* first: no call has failed before */
  values();
  defaults();
  convolution();
  information();
  if (failures == 0) puts("the C ABI holds");
  return failures != 0;
}
