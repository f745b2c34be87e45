// hvdlite's operations in TensorFlow's graphs: what is registered when the library is loaded.
//
// Every kernel is asynchronous: it submits, returns, and is ended from the library's thread, so it
// never blocks one of the executor's few. Stateful operations always run, and a tf.function runs
// them one after another, in the program's order. The stateless allreduce is for gradients: all at
// once, in any order, and not at all if its result is unused.
#include "api/hvdlite.h"
#include "ingraph/tensorflow_abi.h"
#include "ingraph/tensorflow_call.h"
#include "ingraph/tensorflow_dtype.h"
#include "ingraph/tensorflow_kernel.h"

namespace hvdlite::ingraph {
namespace {

template <int32_t kind>
void* Create(TfConstruction* construction) {
  return CreateKernel(kind, construction);
}

void Compute(void* kernel, TfContext* context, TfDone* done) {
  (new Call(*static_cast<const Kernel*>(kernel), context, Steal(done)))->Start();
}

// ---- Shapes: what TensorFlow knows of the results before anything runs

void SameShapes(TfShapeContext* context, TfStatus* status) {
  const Tf& tf = TensorFlow();
  TfShape* const shape = tf.NewShapeHandle();
  const int64_t count = tf.ShapeInferenceContextNumInputs(context);
  for (int32_t i = 0; i < count && tf.GetCode(status) == kTfOk; ++i) {
    tf.ShapeInferenceContextGetInput(context, i, shape, status);
    if (tf.GetCode(status) == kTfOk) tf.ShapeInferenceContextSetOutput(context, i, shape, status);
  }
  tf.DeleteShapeHandle(shape);
}

void UnknownShapes(TfShapeContext* context, TfStatus* status) {
  TensorFlow().ShapeInferenceContextSetUnknownShape(context, status);
}

void Scalar(TfShapeContext* context, TfStatus* status) {
  const Tf& tf = TensorFlow();
  TfShape* const shape = tf.ShapeInferenceContextScalar(context);
  tf.ShapeInferenceContextSetOutput(context, 0, shape, status);
  tf.DeleteShapeHandle(shape);
}

// ---- Operations

struct Operation {
  const char* name;
  TfCreate create;
  bool stateful;
  bool list;  // any number of tensors, or one
  const char* more_input;
  const char* output;
  const char* more_output;
  TfShapeFunction shapes;
};

constexpr Operation kOperations[] = {
    {"HvdliteAllreduceGradient", &Create<HVDLITE_ALLREDUCE>, false, false, nullptr, "result: T",
     nullptr, &SameShapes},
    {"HvdliteAllreduce", &Create<HVDLITE_ALLREDUCE>, true, true, nullptr, "results: T", nullptr,
     &SameShapes},
    {"HvdliteBroadcast", &Create<HVDLITE_BROADCAST>, true, true, nullptr, "results: T", nullptr,
     &SameShapes},
    {"HvdliteAllgather", &Create<HVDLITE_ALLGATHER>, true, true, nullptr, "results: T", nullptr,
     &UnknownShapes},
    {"HvdliteReducescatter", &Create<HVDLITE_REDUCESCATTER>, true, true, nullptr, "results: T",
     nullptr, &UnknownShapes},
    {"HvdliteAlltoall", &Create<HVDLITE_ALLTOALL>, true, false, "splits: int32", "result: T",
     "received_splits: int32", &UnknownShapes},
    {"HvdliteJoin", &Create<HVDLITE_JOIN>, true, false, nullptr, "last: int32", nullptr, &Scalar},
};

std::string Register(const Operation& operation) {
  const Tf& tf = TensorFlow();
  const ScopedStatus status;
  TfOpBuilder* const builder = tf.NewOpDefinitionBuilder(operation.name);
  for (const char* attribute : kAttributes) tf.OpDefinitionBuilderAddAttr(builder, attribute);
  if (operation.shapes != &Scalar) {
    const std::string types = kTfDTypeNames;
    tf.OpDefinitionBuilderAddAttr(
        builder, ("T: " + (operation.list ? "list(" + types + ") >= 1" : types)).c_str());
    tf.OpDefinitionBuilderAddInput(builder, operation.list ? "tensors: T" : "tensor: T");
  }
  if (operation.more_input != nullptr)
    tf.OpDefinitionBuilderAddInput(builder, operation.more_input);
  tf.OpDefinitionBuilderAddOutput(builder, operation.output);
  if (operation.more_output != nullptr)
    tf.OpDefinitionBuilderAddOutput(builder, operation.more_output);
  tf.OpDefinitionBuilderSetShapeInferenceFunction(builder, operation.shapes);
  // Not called with false, which means true to TensorFlow as well.
  if (operation.stateful) tf.OpDefinitionBuilderSetIsStateful(builder, true);
  tf.RegisterOpDefinition(builder, status.get());
  if (!status.ok()) return status.message();
  tf.RegisterKernelBuilder(
      operation.name,
      tf.NewAsyncKernelBuilder(operation.name, "CPU", operation.create, &Compute, &DeleteKernel),
      status.get());
  return status.ok() ? "" : status.message();
}

std::string RegisterAll() {
  if (!TensorFlow().problem.empty()) return TensorFlow().problem;
  for (const Operation& operation : kOperations) {
    const std::string refused = Register(operation);
    if (!refused.empty())
      return std::string("TensorFlow refuses the operation ") + operation.name + ": " + refused;
  }
  return "";
}

const std::string& Problem() {
  static const auto* const problem = new std::string(RegisterAll());
  return *problem;
}

// While the library is being loaded: that is when TensorFlow looks which operations it brings.
__attribute__((constructor)) void WhenLoaded() {
  Problem();
}

}  // namespace
}  // namespace hvdlite::ingraph

// Why the operations cannot be used, as a sentence's part; empty if they can.
extern "C" HVDLITE_API const char* hvdlite_tensorflow_problem(void) {
  return hvdlite::ingraph::Problem().c_str();
}
