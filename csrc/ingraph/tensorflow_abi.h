// The part of TensorFlow's C interface for operations and kernels that we use. The declarations are
// our own; every version since 2.15 exports the functions. They are found at run time in the
// process's loaded libraries. So one binary serves all versions, and a missing function is a
// sentence, not a loader's error.
//
// Thread-safety: any thread, once loaded. Lifetime: the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace hvdlite::ingraph {

// Opaque, as in TensorFlow's headers.
struct TfStatus;
struct TfTensor;
struct TfOpBuilder;
struct TfShapeContext;
struct TfShape;
struct TfKernelBuilder;
struct TfConstruction;
struct TfContext;
struct TfDone;

enum TfCode : int32_t {
  kTfOk = 0,
  kTfUnknown = 2,
  kTfInvalidArgument = 3,
  kTfFailedPrecondition = 9,
  kTfUnimplemented = 12,
  kTfInternal = 13,
};
constexpr int32_t kTfInt32 = 3;

using TfShapeFunction = void (*)(TfShapeContext*, TfStatus*);
using TfCreate = void* (*)(TfConstruction*);
using TfComputeAsync = void (*)(void* kernel, TfContext*, TfDone*);
using TfDelete = void (*)(void* kernel);

// F(result, name without "TF_", parameters)
#define HVDLITE_TF_FUNCTIONS(F)                                                              \
  F(TfStatus*, NewStatus, (void))                                                            \
  F(void, DeleteStatus, (TfStatus*))                                                         \
  F(void, SetStatus, (TfStatus*, int32_t code, const char* message))                         \
  F(int32_t, GetCode, (const TfStatus*))                                                     \
  F(const char*, Message, (const TfStatus*))                                                 \
  F(void, DeleteTensor, (TfTensor*))                                                         \
  F(int32_t, TensorType, (const TfTensor*))                                                  \
  F(int32_t, NumDims, (const TfTensor*))                                                     \
  F(int64_t, Dim, (const TfTensor*, int32_t axis))                                           \
  F(void*, TensorData, (const TfTensor*))                                                    \
  F(TfOpBuilder*, NewOpDefinitionBuilder, (const char* name))                                \
  F(void, RegisterOpDefinition, (TfOpBuilder*, TfStatus*))                                   \
  F(void, OpDefinitionBuilderAddAttr, (TfOpBuilder*, const char* spec))                      \
  F(void, OpDefinitionBuilderAddInput, (TfOpBuilder*, const char* spec))                     \
  F(void, OpDefinitionBuilderAddOutput, (TfOpBuilder*, const char* spec))                    \
  F(void, OpDefinitionBuilderSetIsStateful, (TfOpBuilder*, bool))                            \
  F(void, OpDefinitionBuilderSetShapeInferenceFunction, (TfOpBuilder*, TfShapeFunction))     \
  F(int64_t, ShapeInferenceContextNumInputs, (TfShapeContext*))                              \
  F(TfShape*, NewShapeHandle, (void))                                                        \
  F(void, DeleteShapeHandle, (TfShape*))                                                     \
  F(void, ShapeInferenceContextGetInput, (TfShapeContext*, int32_t i, TfShape*, TfStatus*))  \
  F(void, ShapeInferenceContextSetOutput, (TfShapeContext*, int32_t i, TfShape*, TfStatus*)) \
  F(void, ShapeInferenceContextSetUnknownShape, (TfShapeContext*, TfStatus*))                \
  F(TfShape*, ShapeInferenceContextScalar, (TfShapeContext*))                                \
  F(TfKernelBuilder*, NewAsyncKernelBuilder,                                                 \
    (const char* op, const char* device, TfCreate, TfComputeAsync, TfDelete))                \
  F(void, RegisterKernelBuilder, (const char* name, TfKernelBuilder*, TfStatus*))            \
  F(void, RunAsyncOpKernelDoneCallback, (TfDone*))                                           \
  F(void, OpKernelConstruction_Failure, (TfConstruction*, TfStatus*))                        \
  F(void, OpKernelConstruction_GetAttrInt64,                                                 \
    (TfConstruction*, const char* name, int64_t*, TfStatus*))                                \
  F(void, OpKernelConstruction_GetAttrSize,                                                  \
    (TfConstruction*, const char* name, int32_t* list, int32_t* total, TfStatus*))           \
  F(void, OpKernelConstruction_GetAttrString,                                                \
    (TfConstruction*, const char* name, char*, size_t most, TfStatus*))                      \
  F(int32_t, NumInputs, (TfContext*))                                                        \
  F(void, GetInput, (TfContext*, int32_t i, TfTensor**, TfStatus*))                          \
  F(TfTensor*, AllocateOutput,                                                               \
    (TfContext*, int32_t i, int32_t type, const int64_t* shape, int32_t dims, size_t bytes,  \
     TfStatus*))                                                                             \
  F(TfTensor*, ForwardInputOrAllocateOutput,                                                 \
    (TfContext*, const int32_t* candidates, int32_t count, int32_t i, const int64_t* shape,  \
     int32_t dims, int32_t* forwarded, TfStatus*))                                           \
  F(void, OpKernelContext_Failure, (TfContext*, TfStatus*))

struct Tf {
#define HVDLITE_TF_MEMBER(result, name, parameters) result(*name) parameters = nullptr;
  HVDLITE_TF_FUNCTIONS(HVDLITE_TF_MEMBER)
#undef HVDLITE_TF_MEMBER

  // Empty if everything above may be called.
  std::string problem;
};

// Finds the functions at the first call.
const Tf& TensorFlow();

// A std::function<void()> as libstdc++ has it in memory. TensorFlow is built with libstdc++; this
// library may be built with another one.
class Done {
 public:
  // Takes the content of TensorFlow's, which is destroyed when the compute function returns.
  explicit Done(TfDone* theirs) noexcept : Done(std::move(*reinterpret_cast<Done*>(theirs))) {}
  Done(void (*run)(void* context), void* context)
      : stored_{context, reinterpret_cast<void*>(run)}, manage_(&Manage), call_(&Invoke) {}
  Done(Done&& other) noexcept
      : stored_(other.stored_),
        manage_(std::exchange(other.manage_, nullptr)),
        call_(other.call_) {}
  ~Done() {
    if (manage_ != nullptr) manage_(&stored_, &stored_, kDestroy);
  }
  Done(const Done&) = delete;
  Done& operator=(const Done&) = delete;

  void operator()() const { call_(&stored_); }

 private:
  struct Stored {
    void* words[2];
  };
  enum Request : int32_t { kClone = 2, kDestroy = 3 };

  // Of ours.
  static bool Manage(Stored* to, const Stored* from, Request request) {
    if (request == kClone) *to = *from;
    return false;
  }
  static void Invoke(const Stored* stored) {
    reinterpret_cast<void (*)(void*)>(stored->words[1])(stored->words[0]);
  }

  Stored stored_;
  bool (*manage_)(Stored* to, const Stored* from, Request);  // null: there is no function
  void (*call_)(const Stored*);
};
#ifdef __GLIBCXX__
static_assert(sizeof(Done) == sizeof(std::function<void()>));
#endif

// A status for TensorFlow to fill in, freed at the end of the scope.
class ScopedStatus {
 public:
  ScopedStatus() : status_(TensorFlow().NewStatus()) {}
  ScopedStatus(int32_t code, const char* message) : ScopedStatus() {
    TensorFlow().SetStatus(status_, code, message);
  }
  ~ScopedStatus() { TensorFlow().DeleteStatus(status_); }
  ScopedStatus(const ScopedStatus&) = delete;
  ScopedStatus& operator=(const ScopedStatus&) = delete;

  TfStatus* get() const { return status_; }
  bool ok() const { return TensorFlow().GetCode(status_) == kTfOk; }
  const char* message() const { return TensorFlow().Message(status_); }

 private:
  TfStatus* status_;
};

}  // namespace hvdlite::ingraph
