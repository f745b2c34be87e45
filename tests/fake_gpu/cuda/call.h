// Call: what every function of the fake driver does first: is this allowed here and now, and was a
// failure commanded?
//
//   extern "C" int cuSomething(...) {
//     FAKE_CUDA_CALL(kContext);
//     ... call.machine(), its mutex held and Unseen, and call.device()
#pragma once

#include "fake_gpu/cuda/machine.h"
#include "fake_gpu/cuda/unseen.h"

namespace hvdlite::fake_gpu {

class Call {
 public:
  enum Needs {
    kNothing,
    kInit,     // cuInit has been called, in this process
    kContext,  // a context is current, its device retained and not broken
  };
  Call(const char* symbol, Needs needs);

  int code() const { return code_; }
  Machine& machine() { return machine_; }
  // Of the current context; null without one.
  Device* device() const { return device_; }
  std::unique_lock<std::mutex>* lock() { return &lock_; }

  int Complain(int result, const std::string& what) {
    return machine_.Complain(result, symbol_ + ": " + what);
  }

  // The stream that `handle` names, ready to be given work, or the error why not.
  int StreamFor(void* handle, std::shared_ptr<Stream>* stream);
  // An error where a capture of this or another thread forbids what might wait for the device.
  int RefuseDuringCapture();

  // The contexts of this thread, the current one last.
  static std::vector<Device*>& Contexts();
  // Of this thread: cuThreadExchangeStreamCaptureMode.
  static int& CaptureMode();

 private:
  int Check(Needs needs);

  const Unseen unseen_;
  Machine& machine_;
  std::unique_lock<std::mutex> lock_;
  const std::string symbol_;
  Device* device_ = nullptr;
  int code_;
};

}  // namespace hvdlite::fake_gpu

// Returns an error of `expr` to the caller.
#define FAKE_CUDA_TRY(expr) \
  if (const int code = (expr); code != hvdlite::fake_gpu::kSuccess) return code

// The first line of a function of the driver.
#define FAKE_CUDA_CALL(needs)                                             \
  hvdlite::fake_gpu::Call call(__func__, hvdlite::fake_gpu::Call::needs); \
  FAKE_CUDA_TRY(call.code())
