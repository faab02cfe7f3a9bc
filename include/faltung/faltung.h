/* The C ABI (C99) of Faltung: everything else in the library is reached through this header.

   - A tensor is a view of memory that the caller owns; strides are in elements, of any sign, zero included.
   - Options structs start with their size: fill them with their ..._options_default() function, then set fields.
   - Every function returns a status; faltung_last_error() tells in words what was expected and what came.
   - Calls are thread safe. On CUDA they enqueue work on the stream of the options and never synchronise. */
#ifndef FALTUNG_FALTUNG_H
#define FALTUNG_FALTUNG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define FALTUNG_API __declspec(dllexport)
#else
#define FALTUNG_API __attribute__((visibility("default")))
#endif

/* In C++ with an underlying type: a number that is none of the enumerators is then an error to report, not undefined behaviour. */
#ifdef __cplusplus
#define FALTUNG_ENUM enum : int
#else
#define FALTUNG_ENUM enum
#endif

typedef FALTUNG_ENUM {
  FALTUNG_OK = 0,
  FALTUNG_INVALID_ARGUMENT = 1, /* a shape, a stride, a value: ValueError in Python */
  FALTUNG_INVALID_TYPE = 2,     /* a dtype or a device: TypeError in Python */
  FALTUNG_UNSUPPORTED = 3,      /* legal, but no implementation in this build takes it */
  FALTUNG_OUT_OF_MEMORY = 4,
  FALTUNG_RUNTIME_ERROR = 5 /* the device or the operating system reported an error */
} faltung_status;

typedef FALTUNG_ENUM {
  FALTUNG_F64 = 0,
  FALTUNG_F32 = 1,
  FALTUNG_F16 = 2,
  FALTUNG_BF16 = 3,
  FALTUNG_I32 = 4, /* index tensors only */
  FALTUNG_I64 = 5  /* index tensors only */
} faltung_dtype;

typedef FALTUNG_ENUM { FALTUNG_CPU = 0, FALTUNG_CUDA = 1 } faltung_device_type;

enum { FALTUNG_MAX_RANK = 6, FALTUNG_MAX_SPATIAL_RANK = 3 };

/* A view of memory owned by the caller. Strides are in elements. */
typedef struct {
  void* data; /* may be NULL where the tensor is empty or only its shape is read */
  faltung_dtype dtype;
  faltung_device_type device;
  int32_t device_index; /* of the CUDA device; 0 on the CPU */
  int32_t rank;
  int64_t shape[FALTUNG_MAX_RANK];
  int64_t strides[FALTUNG_MAX_RANK];
} faltung_tensor;

/* Threads injected by the caller (CPU only). The function must call body(argument, begin, end) for disjoint
   ranges that together cover [0, count), from any threads, and return when all are done. */
typedef void (*faltung_body)(void* argument, int64_t begin, int64_t end);
typedef void (*faltung_parallel_for)(void* context, int64_t count, faltung_body body, void* argument);

/* Number of threads of the library's own pool, which serves calls without an injected parallel_for.
   0 restores the default: one per processor that this process may use. */
FALTUNG_API faltung_status faltung_set_num_threads(int32_t threads);
FALTUNG_API int32_t faltung_num_threads(void);

/* Message of the last failed call on this thread; never NULL, "" if none has failed. */
FALTUNG_API char const* faltung_last_error(void);

/* "0.1.0" */
FALTUNG_API char const* faltung_version(void);

/* What this build and this machine have: version, SIMD target, threads, backends, one `name: value` line each. Writes at most
   `capacity` bytes with a final NUL; *needed (may be NULL) becomes the bytes that the whole text takes, NUL included. */
FALTUNG_API faltung_status faltung_info(char* text, int64_t capacity, int64_t* needed);

/* ---- long_conv ------------------------------------------------------------------------------------------

   Depthwise convolution with filters as large as the grid, or larger, over 1, 2 or 3 axes. Per axis with N input points, K taps and
   centre c (x is 0 outside the grid, unless circular):

     zero      y[i] = sum_m x[i + c - m] k[m],          c = floor(K / 2)
     circular  y[i] = sum_m x[(i + c - m) mod N] k[m],  c = floor((K - 1) / 2)
     causal    y[i] = sum_m x[i - m] k[m],              c = 0; no bit of y[i] depends on a finite x[j] with j > i

   Channels first: x, y, dx, dy [B, C, *S]; k, dk [C, *K], [1, C, *K] or [B, C, *K] (a filter per sample).
   Channels last:  x, y, dx, dy [B, *S, C]; k, dk [*K, C], [1, *K, C] or [B, *K, C].
   shortcut, dshortcut [C]: y += shortcut[c] x, before the one rounding to the dtype of y.
   dtypes: F64, F32, F16, BF16; y, dy, dx have that of x, dk that of k, dshortcut that of shortcut; k and shortcut may differ from x.
   Same inputs, same bits; the bits of y[b, c] depend on no other sample, channel, thread count or stride.
   Accuracy (relative L2 error against double, r that of correct rounding): bf16 1.1 r, fp16 1.2 r (2.2 r where transformed),
   fp32 3e-7 up to 64 points an axis and 1e-6 for anything, fp64 1e-13; of a result that is small because its sums cancel, relative
   to the root of the sum of its squared terms. */

typedef FALTUNG_ENUM { FALTUNG_ZERO = 0, FALTUNG_CIRCULAR = 1, FALTUNG_CAUSAL = 2 } faltung_boundary;
typedef FALTUNG_ENUM { FALTUNG_CHANNELS_FIRST = 0, FALTUNG_CHANNELS_LAST = 1 } faltung_layout;
typedef FALTUNG_ENUM { FALTUNG_FORWARD = 0, FALTUNG_BACKWARD = 1 } faltung_direction;

/* centre[axis] = this: the rule of the axis' boundary. */
#define FALTUNG_DEFAULT_CENTRE INT64_MIN

typedef struct {
  size_t size; /* of this struct, as the caller knows it */
  faltung_layout layout;
  faltung_boundary boundary[FALTUNG_MAX_SPATIAL_RANK]; /* per spatial axis, in the order of the shape */
  int64_t centre[FALTUNG_MAX_SPATIAL_RANK];            /* FALTUNG_DEFAULT_CENTRE, or any; causal axes: 0 */
  void* stream;                                        /* cudaStream_t; ignored on the CPU */
  void* workspace;                                     /* faltung_long_conv_workspace() bytes on x's device, 256-byte aligned */
  size_t workspace_size;
  faltung_parallel_for parallel_for; /* NULL: the library's pool */
  void* parallel_context;
  char const* implementation; /* tests only: NULL, or the name of the one implementation that must serve this call */
} faltung_long_conv_options;

FALTUNG_API void faltung_long_conv_options_default(faltung_long_conv_options* options);

/* y = long_conv(x, k) + shortcut x. shortcut and options may be NULL. y must not overlap the inputs. */
FALTUNG_API faltung_status faltung_long_conv_forward(faltung_tensor const* x, faltung_tensor const* k, faltung_tensor const* shortcut,
                                                     faltung_tensor* y, faltung_long_conv_options const* options);

/* Gradients of sum(dy * y): dx, dk (summed over the batch where the filter is shared) and dshortcut, each skipped where NULL.
   The data of x may be NULL without dk and dshortcut; that of k without dx. shortcut: as in the forward. */
FALTUNG_API faltung_status faltung_long_conv_backward(faltung_tensor const* dy, faltung_tensor const* x, faltung_tensor const* k,
                                                      faltung_tensor const* shortcut, faltung_tensor* dx, faltung_tensor* dk,
                                                      faltung_tensor* dshortcut, faltung_long_conv_options const* options);

/* Bytes of workspace that the call with these tensors needs (their data is not read). For the backward x stands for dy and dx, k for dk, and
   all gradients are counted. */
FALTUNG_API faltung_status faltung_long_conv_workspace(faltung_direction direction, faltung_tensor const* x, faltung_tensor const* k,
                                                       faltung_tensor const* shortcut, faltung_long_conv_options const* options,
                                                       size_t* bytes);

/* The problem, then the ordered list of implementations, each with `accepts` and its policy or the reason why it declines, then the choice.
   Text as in faltung_info. */
FALTUNG_API faltung_status faltung_long_conv_explain(faltung_direction direction, faltung_tensor const* x, faltung_tensor const* k,
                                                     faltung_tensor const* shortcut, faltung_long_conv_options const* options, char* text,
                                                     int64_t capacity, int64_t* needed);

/* ---- causal_conv1d --------------------------------------------------------------------------------------

   Short causal depthwise convolution with carried state. Of each sequence, tokens t = 0 .. L-1, W taps:

     z[t] = bias + sum_j weight[j] xs[t - (W-1) + j],  xs = the W-1 columns of the state (0 without one), then x
     y[t] = activation(z[t]) + residual[t];            final_state[c] = xs[L - (W-1) + c]

   Channels first: x, y, residual [B, D, T]; channels last: [B, T, D]. weight [D, W], W from 1 to 256; bias [D]; states [N, D, W-1], oldest
   column first, or [N, D, W], whose column 0 is not read and is written as xs[L-W] (0 where there is none). Any strides.
   dtypes: F64, F32, F16, BF16; y, residual and their gradients have that of x; weight, bias and the states each have their own, and
   every gradient has that of what it belongs to. Sums start from bias, then one fused multiply-add per tap, in fp32 (fp64 for
   F64): the bits of a token depend neither on its place, nor on strides, layout, batch or threads; prefill in chunks and update() give the
   bits of one forward, as long as the state's dtype holds x exactly. Gradients repeat bit for bit with any number of threads. */

typedef FALTUNG_ENUM { FALTUNG_ACTIVATION_NONE = 0, FALTUNG_ACTIVATION_SILU = 1 } faltung_activation;

/* At most one of cu_seqlens, seq_idx, lengths; without them each row of the batch is one sequence, N = B. */
typedef struct {
  size_t size; /* of this struct, as the caller knows it */
  faltung_layout layout;
  faltung_activation activation;
  faltung_tensor const* bias;          /* [D] or NULL */
  faltung_tensor const* residual;      /* like x, or NULL; forward only */
  faltung_tensor const* initial_state; /* [N, D, W-1] or [N, D, W], or NULL */
  faltung_tensor const* cu_seqlens;    /* [N+1] I32 or I64, B = 1: sequence n is tokens cu_seqlens[n] .. cu_seqlens[n+1]-1; y of others is 0 */
  faltung_tensor const* seq_idx;       /* [B, T] I32: a run of equal labels is a sequence; negative: no token, y = 0. initial_state
                                          belongs to the first run of a row, final_state to the last; N = B */
  faltung_tensor const* lengths;       /* [B] I32 or I64: real tokens of right-padded rows; y of the others is 0; N = B */
  int32_t check;                       /* not 0: read cu_seqlens or lengths first, and fail where the content is out of order. On CUDA this
                                          synchronises; without it such content gives unspecified values of y, nothing worse */
  void* stream;                        /* cudaStream_t; ignored on the CPU */
  void* workspace;                     /* faltung_causal_conv1d_workspace() bytes on x's device, 256-byte aligned */
  size_t workspace_size;
  faltung_parallel_for parallel_for; /* NULL: the library's pool */
  void* parallel_context;
  char const* implementation; /* tests only: NULL, or the name of the one implementation that must serve this call */
} faltung_causal_conv1d_options;

FALTUNG_API void faltung_causal_conv1d_options_default(faltung_causal_conv1d_options* options);

/* final_state: [N, D, W-1] or [N, D, W] of any floating dtype, or NULL. Outputs must not overlap inputs. */
FALTUNG_API faltung_status faltung_causal_conv1d_forward(faltung_tensor const* x, faltung_tensor const* weight, faltung_tensor* y,
                                                         faltung_tensor* final_state, faltung_causal_conv1d_options const* options);

/* Gradients of sum(dy * y) + sum(dfinal_state * final_state), each skipped where NULL. dfinal_state may be NULL. Where only dx and
   dinitial_state are asked for and there is no activation, the data of x may be NULL. */
FALTUNG_API faltung_status faltung_causal_conv1d_backward(faltung_tensor const* dy, faltung_tensor const* x, faltung_tensor const* weight,
                                                          faltung_tensor const* dfinal_state, faltung_tensor* dx, faltung_tensor* dweight,
                                                          faltung_tensor* dbias, faltung_tensor* dinitial_state,
                                                          faltung_tensor* dresidual, faltung_causal_conv1d_options const* options);

/* Bytes of workspace that the call with these tensors needs (their data is not read); all gradients are counted. */
FALTUNG_API faltung_status faltung_causal_conv1d_workspace(faltung_direction direction, faltung_tensor const* x, faltung_tensor const* weight,
                                                           faltung_causal_conv1d_options const* options, size_t* bytes);

/* As faltung_long_conv_explain. */
FALTUNG_API faltung_status faltung_causal_conv1d_explain(faltung_direction direction, faltung_tensor const* x, faltung_tensor const* weight,
                                                         faltung_causal_conv1d_options const* options, char* text, int64_t capacity,
                                                         int64_t* needed);

/* A forward validated and dispatched once. launch() takes the same arguments without looking at them again: B, T, N, strides and data may
   differ from those of prepare(); dtypes, ranks, D, W, layout, activation, the columns of the states and which tensors are there may not. */
typedef struct faltung_causal_conv1d_prepared faltung_causal_conv1d_prepared;

FALTUNG_API faltung_status faltung_causal_conv1d_prepare(faltung_tensor const* x, faltung_tensor const* weight, faltung_tensor const* y,
                                                         faltung_tensor const* final_state, faltung_causal_conv1d_options const* options,
                                                         faltung_causal_conv1d_prepared** prepared);
FALTUNG_API faltung_status faltung_causal_conv1d_launch(faltung_causal_conv1d_prepared const* prepared, faltung_tensor const* x,
                                                        faltung_tensor const* weight, faltung_tensor* y, faltung_tensor* final_state,
                                                        faltung_causal_conv1d_options const* options);
FALTUNG_API void faltung_causal_conv1d_destroy(faltung_causal_conv1d_prepared* prepared);

/* Where the last W-1 tokens lie in a state of S columns:
     trailing  in its last columns; the whole buffer moves: it holds the last S tokens
     leading   in its first W-1 columns, which move; columns behind them are left alone. With num_accepted see there
     ring      the token at position p in column p mod S, for the next token's position cache_seqlens[n] (not incremented) */
typedef FALTUNG_ENUM { FALTUNG_TRAILING = 0, FALTUNG_LEADING = 1, FALTUNG_RING = 2 } faltung_window;

/* Two rows with the same destination, or one row's source that is another's destination: undefined values.
   An index beyond the slots is treated like a negative one. */
typedef struct {
  size_t size; /* of this struct, as the caller knows it */
  faltung_layout layout;
  faltung_activation activation;
  faltung_window window;
  faltung_tensor const* bias;                 /* [D] or NULL */
  faltung_tensor const* state_indices;        /* [N] I32: the slot of each row; negative: y = 0, state untouched. NULL: row n has slot n */
  faltung_tensor const* output_state_indices; /* [N] I32: where the new state goes; negative: nowhere. NULL: the slot it came from */
  faltung_tensor const* cache_seqlens;        /* [N] I32, ring only */
  faltung_tensor const* num_accepted;         /* [N] I32, leading only, S >= W-2+T: the window starts at column num_accepted[n]-1; afterwards
                                                 the buffer holds the last W-2 columns of the window and the T new tokens */
  faltung_tensor const* query_start_loc;      /* [N+1] I32 with x [total, D]: row n is tokens query_start_loc[n] .. [n+1]-1 */
  int32_t check;                              /* not 0: read the index tensors first, and fail where their content is out of order */
  void* stream;
  faltung_parallel_for parallel_for;
  void* parallel_context;
  char const* implementation;
} faltung_causal_conv1d_update_options;

FALTUNG_API void faltung_causal_conv1d_update_options_default(faltung_causal_conv1d_update_options* options);

/* x, y [N, D]; [N, D, T] (channels first) or [N, T, D] (channels last); or [total, D] with query_start_loc. state [slots, D, S], S >= W-1,
   is read, then advanced in place by the T tokens of each row: the same bits as T updates by one token. No workspace. */
FALTUNG_API faltung_status faltung_causal_conv1d_update(faltung_tensor const* x, faltung_tensor* state, faltung_tensor const* weight,
                                                        faltung_tensor* y, faltung_causal_conv1d_update_options const* options);

FALTUNG_API faltung_status faltung_causal_conv1d_update_explain(faltung_tensor const* x, faltung_tensor const* state,
                                                                faltung_tensor const* weight,
                                                                faltung_causal_conv1d_update_options const* options, char* text,
                                                                int64_t capacity, int64_t* needed);

#ifdef __cplusplus
}
#endif
#endif
