/* A program outside the tree: the installed C header, found by pkg-config or by find_package from a project without
 * C++. */
#include <faltung/faltung.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  float x[2] = {1, 2}, k[1] = {3}, y[2] = {0, 0};
  faltung_tensor tx, tk, ty;
  memset(&tx, 0, sizeof tx);
  tx.dtype = FALTUNG_F32;
  tx.rank = 3;
  tx.shape[0] = tx.shape[1] = 1;
  tx.shape[2] = 2;
  tx.strides[0] = tx.strides[1] = 2;
  tx.strides[2] = 1;
  tk = ty = tx;
  tk.rank = 2;
  tk.shape[1] = 1;
  tx.data = x;
  tk.data = k;
  ty.data = y;
  if (faltung_long_conv_forward(&tx, &tk, NULL, &ty, NULL) != FALTUNG_OK) {
    fprintf(stderr, "%s\n", faltung_last_error());
    return 1;
  }
  printf("faltung %s: %g %g\n", faltung_version(), y[0], y[1]);
  return !(y[0] > 2.999f && y[0] < 3.001f && y[1] > 5.999f && y[1] < 6.001f);
}
