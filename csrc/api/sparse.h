/* Sparse gradients: the part of the C interface that compressions of hvdlite/adapter use. C99; the
 * conventions are those of hvdlite.h. */
#ifndef HVDLITE_API_SPARSE_H_
#define HVDLITE_API_SPARSE_H_

#include <stdint.h>

#include "api/hvdlite.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The fields of csrc/kernels/select.h, which says what they mean. The functions need no job. */
typedef struct {
  int64_t count;
  const float* gradient;
  const float* residual;
  const float* velocity; /* NULL: no momentum */
  float momentum;
  int32_t nesterov, masking;
  float* new_residual;
  float* new_velocity;
  int64_t taken;
  float* values;
  int32_t* positions;
} hvdlite_selection;
/* HVDLITE_INVALID_ARGUMENT: `count` or `taken` is not possible. */
HVDLITE_API hvdlite_code hvdlite_select(const hvdlite_selection* selection);
/* Writes the sums of the elements at each position, times `factor`, and zeros elsewhere.
 * HVDLITE_INVALID_ARGUMENT: a position is not below `count`, and nothing has been written. */
HVDLITE_API hvdlite_code hvdlite_spread(const float* values, const int32_t* positions,
                                        int64_t pairs, float factor, int64_t count, float* output);
/* How many times hvdlite_select and hvdlite_spread have succeeded in this process. */
HVDLITE_API void hvdlite_selections(uint64_t* selected, uint64_t* spread);

#ifdef __cplusplus
}
#endif
#endif /* HVDLITE_API_SPARSE_H_ */
