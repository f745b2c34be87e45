// KeepGreatest: of a list, the greatest elements.
#pragma once

#include <cstdint>

namespace hvdlite::kernels {

// Moves the `kept` greatest of `count` different elements to the front, nearly in the order in
// which they were, and returns the least of them. The others are lost. 0 < kept <= count.
//
// Cost: three passes without comparisons between elements, and std::nth_element of those whose
// upper 32 bits are in the same one of 512 ranges as the least one's.
uint64_t KeepGreatest(uint64_t* list, int64_t count, int64_t kept);

}  // namespace hvdlite::kernels
