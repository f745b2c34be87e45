// What the thread sanitizer sees of the fake driver: the order that CUDA promises, and nothing
// else.
//
// The fake's own locks would order nearly everything that streams do, and hide a missing wait. So
// whatever is done under Unseen counts for nothing, and where CUDA promises an order somebody says
// Promise(x) before and Rely(x) after it. Without the sanitizer all of this is empty.
#pragma once

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>

extern "C" {
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace hvdlite::fake_gpu {

#if defined(__SANITIZE_THREAD__)

// Not nested.
class Unseen {
 public:
  Unseen() { Begin(); }
  ~Unseen() { End(); }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;

  static void Begin() {
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  static void End() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  }
};

inline void Promise(const void* what) {
  __tsan_release(const_cast<void*>(what));
}
inline void Rely(const void* what) {
  __tsan_acquire(const_cast<void*>(what));
}
// Promise, by somebody who is Unseen.
inline void PromiseUnseen(const void* what) {
  Unseen::End();
  Promise(what);
  Unseen::Begin();
}

#else

class Unseen {
 public:
  Unseen() {}
  ~Unseen() {}
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};
inline void Promise(const void*) {}
inline void Rely(const void*) {}
inline void PromiseUnseen(const void*) {}

#endif

}  // namespace hvdlite::fake_gpu
