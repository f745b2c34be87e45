// Call: one computation of a kernel. TensorFlow's thread starts it; the library's thread ends it.
//
// It deletes itself when it has ended. After Submit() only the library's completions touch it;
// those of a group may come from several threads.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "api/hvdlite.h"
#include "ingraph/tensorflow_abi.h"
#include "ingraph/tensorflow_kernel.h"

namespace hvdlite::ingraph {

class Call {
 public:
  Call(const Kernel& kernel, TfContext* context, Done done)
      : kernel_(kernel), context_(context), done_(std::move(done)) {}

  // Reads the inputs, submits one operation for each, and returns. If that fails, ends the call.
  void Start();

 private:
  // One tensor of the call.
  struct Part {
    Call* call;
    int32_t number;
    std::vector<int64_t> shape;
  };

  bool Read(int32_t number, hvdlite_operation* operation);
  bool ReadSplits(int32_t number);
  bool MakeOutput(int32_t number, hvdlite_operation* operation);
  void Submit(const std::vector<hvdlite_operation>& operations);
  void Fail(int32_t code, const char* message);
  void End();

  // Called by the library's completions.
  static void PartDone(void* part, hvdlite_code code, const char* error,
                       const hvdlite_result* result);
  static void* AllocatePart(void* part, const hvdlite_tensor* output);
  void WriteIntegers(int32_t output, const int64_t* values, int64_t count, bool scalar);

  const Kernel& kernel_;
  TfContext* const context_;
  Done done_;
  std::vector<Part> parts_;
  std::vector<int64_t> splits_;
  std::atomic<int> left_{0};  // parts in flight
  std::atomic<bool> failed_{false};
};

}  // namespace hvdlite::ingraph
