// Tells the leak sanitizer that memory is given up on purpose, because another owner may still use
// it.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace hvdlite {

inline void LeakOnPurpose([[maybe_unused]] const void* memory) {
#if defined(__SANITIZE_ADDRESS__)
  __lsan_ignore_object(memory);
#endif
}

}  // namespace hvdlite
