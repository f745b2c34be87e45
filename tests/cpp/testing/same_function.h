// Whether two declarations of a C function call it alike: for tests that compare ours with the
// header of who wrote it.
#pragma once

#include <type_traits>

namespace hvdlite::testing {

// Passed alike by the C ABI: as large, and both pointers or both not.
template <class Ours, class Theirs>
constexpr bool kAlike =
    (sizeof(Ours) == sizeof(Theirs)) && (std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>);

template <class Ours, class Theirs>
constexpr bool kSameFunction = false;
template <class R, class... Ours, class Q, class... Theirs>
constexpr bool kSameFunction<R (*)(Ours...), Q (*)(Theirs...)> = [] {
  if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
    return false;
  } else {
    return kAlike<R, Q> && (kAlike<Ours, Theirs> && ...);
  }
}();

}  // namespace hvdlite::testing
