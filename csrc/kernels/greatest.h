// KeepGreatest: of a list, the greatest elements.
#pragma once

#include <cstdint>

namespace hvdlite::kernels {

// Moves the `kept` greatest of `count` different elements to the front, nearly in the order in
// which they were, and returns the least of them. 0 < kept <= count.
//
// Cost: three passes without comparisons between elements, if the elements' upper 32 bits are
// spread; else that of std::nth_element.
uint64_t KeepGreatest(uint64_t* list, int64_t count, int64_t kept);

}  // namespace hvdlite::kernels
