// hvdlite's operations in TensorFlow's graphs, registered when the library is loaded.
//
// Every kernel is asynchronous: it submits and returns, and the library's thread ends it. So it
// never blocks one of the executor's few threads. Stateful operations always run, and a tf.function
// runs them one after another, in the program's order. The stateless allreduce is for gradients:
// all run at once, in any order, and not at all if the result is unused.
#include <array>
#include <cctype>
#include <utility>
#include <vector>

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
  (new Call(*static_cast<const Kernel*>(kernel), context, Done(done)))->Start();
}

// ---- Shapes: what TensorFlow knows of the results before execution

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
  std::string name;
  TfCreate create = nullptr;
  TfShapeFunction shapes = &UnknownShapes;
  bool stateful = true;
  bool list = false;  // any number of tensors, or one
  const char* more_input = nullptr;
  const char* output = "result: T";
  const char* more_output = nullptr;
};

// TensorFlow does not pass the kind to the function that makes a kernel, so each kind has a
// function of its own. There are more functions than kinds.
template <int32_t... kinds>
constexpr auto Creators(std::integer_sequence<int32_t, kinds...>) {
  return std::array<TfCreate, sizeof...(kinds)>{&Create<kinds>...};
}
constexpr auto kCreators = Creators(std::make_integer_sequence<int32_t, 32>());

// Makes the operation of a kind that has results. HvdliteAllreduce performs "allreduce".
Operation OfKind(int32_t kind, std::string name, int32_t result) {
  name[0] = static_cast<char>(toupper(name[0]));
  Operation operation{"Hvdlite" + name, kCreators[static_cast<size_t>(kind)]};
  if (result == HVDLITE_RESULT_SAME) operation.shapes = &SameShapes;
  if (result == HVDLITE_RESULT_EXCHANGED) {
    operation.more_input = "splits: int32";
    operation.more_output = "received_splits: int32";
  } else {
    operation.list = true;
    operation.output = "results: T";
  }
  return operation;
}

std::vector<Operation> Operations() {
  std::vector<Operation> found = {
      {"HvdliteAllreduceGradient", &Create<HVDLITE_ALLREDUCE>, &SameShapes, false},
      {"HvdliteJoin", &Create<HVDLITE_JOIN>, &Scalar, true, false, nullptr, "last: int32"},
  };
  for (int32_t kind = 0; hvdlite_operation_name(kind) != nullptr; ++kind) {
    const int32_t result = hvdlite_operation_result(kind);
    if (result != HVDLITE_RESULT_NONE)
      found.push_back(OfKind(kind, hvdlite_operation_name(kind), result));
  }
  return found;
}

std::string Register(const Operation& operation) {
  const Tf& tf = TensorFlow();
  const ScopedStatus status;
  TfOpBuilder* const builder = tf.NewOpDefinitionBuilder(operation.name.c_str());
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
  // Never call it with false, which also means true to TensorFlow.
  if (operation.stateful) tf.OpDefinitionBuilderSetIsStateful(builder, true);
  tf.RegisterOpDefinition(builder, status.get());
  if (!status.ok()) return status.message();
  const char* const name = operation.name.c_str();
  tf.RegisterKernelBuilder(
      name, tf.NewAsyncKernelBuilder(name, "CPU", operation.create, &Compute, &DeleteKernel),
      status.get());
  return status.ok() ? "" : status.message();
}

std::string RegisterAll() {
  if (!TensorFlow().problem.empty()) return TensorFlow().problem;
  for (const Operation& operation : Operations()) {
    const std::string refused = Register(operation);
    if (!refused.empty())
      return "TensorFlow refuses the operation " + operation.name + ": " + refused;
  }
  return "";
}

const std::string& Problem() {
  static const auto* const problem = new std::string(RegisterAll());
  return *problem;
}

// Runs while the library is being loaded, which is when TensorFlow looks for its operations.
__attribute__((constructor)) void WhenLoaded() {
  Problem();
}

}  // namespace
}  // namespace hvdlite::ingraph

// Why the operations cannot be used, as part of a sentence; empty if they can.
extern "C" HVDLITE_API const char* hvdlite_tensorflow_problem(void) {
  return hvdlite::ingraph::Problem().c_str();
}
