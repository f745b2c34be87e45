/* Of an allreduce that sums float32 in host memory, without a codec: each rank sends the `taken`
 * greatest elements, the same number on all ranks, and remembers the others. C99, of hvdlite.h. */
#ifndef HVDLITE_API_SPARSE_H_
#define HVDLITE_API_SPARSE_H_

#include <stdint.h>

/* The memory has as many elements as the tensor (`count`). The new one is complete when the
 * operation is done, and overlaps nothing. csrc/kernels/select.h says what the fields mean. */
typedef struct hvdlite_sparse {
  int64_t taken;
  int64_t count;
  const float* residual;
  float* new_residual;
  const float* velocity; /* NULL: no momentum */
  float* new_velocity;
  float momentum;
  int32_t nesterov, masking;
} hvdlite_sparse;

#endif /* HVDLITE_API_SPARSE_H_ */
