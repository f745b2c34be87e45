// The part of XLA's typed FFI (xla/ffi/api/c_api.h) that a handler needs. The declarations are our
// own. XLA promises that a published layout stays and is only appended to. So no framework's header
// is needed, and one binary serves all versions.
//
// A runtime accepts handlers that report its own minor version or a lower one, so kMinorVersion is
// the lowest that has all of this. Only members that have the same place in every version since
// then are declared; a struct may be longer in the runtime than here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hvdlite::ingraph::ffi {

constexpr int kMajorVersion = 0;
constexpr int kMinorVersion = 1;

struct Extension {
  size_t struct_size;
  int32_t type;
  Extension* next;
};

struct Version {
  size_t struct_size;
  Extension* extensions;
  int32_t major;
  int32_t minor;
};

struct ByteSpan {
  const char* data;
  size_t size;
};

// ---- Tensors

// The numbers of xla::PrimitiveType that can be communicated.
enum DataType : int32_t {
  kPred = 1,
  kS8 = 2,
  kS16 = 3,
  kS32 = 4,
  kS64 = 5,
  kU8 = 6,
  kU16 = 7,
  kU32 = 8,
  kU64 = 9,
  kF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kBF16 = 16,
};

struct Buffer {
  size_t struct_size;
  Extension* extensions;
  DataType dtype;
  void* data;
  int64_t rank;
  int64_t* dims;
};

// Arguments or results, which have the same layout. An element is a Buffer if its type is
// kBufferType.
constexpr int32_t kBufferType = 1;
struct Buffers {
  size_t struct_size;
  Extension* extensions;
  int64_t count;
  int32_t* types;
  void** elements;
};

// ---- Attributes

enum AttributeType : int32_t { kArray = 1, kScalar = 3, kString = 4 };  // kString: a ByteSpan

struct Scalar {
  DataType dtype;
  void* value;
};

struct Array {
  DataType dtype;
  size_t size;
  void* data;
};

struct Attributes {
  size_t struct_size;
  Extension* extensions;
  int64_t count;
  AttributeType* types;
  ByteSpan** names;
  void** values;
};

// ---- Functions of the runtime

struct Error;  // the runtime's; a handler returns it, or null

// absl's status codes.
enum ErrorCode : int32_t {
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kFailedPrecondition = 9,
  kUnimplemented = 12,
};

struct CreateErrorArguments {
  size_t struct_size;
  Extension* extensions;
  const char* message;
  ErrorCode code;
};

struct ErrorMessageArguments {
  size_t struct_size;
  Extension* extensions;
  Error* error;
  const char* message;  // out
};

struct DestroyErrorArguments {
  size_t struct_size;
  Extension* extensions;
  Error* error;
};

struct Context;  // of one execution

struct GetStreamArguments {
  size_t struct_size;
  Extension* extensions;
  Context* context;
  void* stream;  // out; on platform CUDA a CUstream
};

struct CallFrame;
using Handler = Error*(CallFrame*);

struct RegisterArguments {
  size_t struct_size;
  Extension* extensions;
  ByteSpan name;
  ByteSpan platform;
  Handler* instantiate;
  Handler* prepare;
  Handler* initialize;
  Handler* execute;
  uint32_t traits;
};

struct Api {
  size_t struct_size;
  Extension* extensions;
  Version version;
  const void* internal;
  Error* (*create_error)(CreateErrorArguments*);
  void (*error_message)(ErrorMessageArguments*);
  void (*destroy_error)(DestroyErrorArguments*);
  Error* (*register_handler)(RegisterArguments*);
  Error* (*get_stream)(GetStreamArguments*);
};

// Whether the table is laid out as above. TensorFlow 2.17 has an earlier one, which has no version
// and is shorter.
inline bool IsKnown(const Api& api) {
  return api.struct_size >= sizeof(Api) && api.version.struct_size == sizeof(Version) &&
         api.version.major == kMajorVersion;
}

// ---- The call

struct CallFrame {
  size_t struct_size;
  Extension* extensions;
  const Api* api;
  Context* context;
  int32_t stage;
  Buffers arguments;
  Buffers results;
  Attributes attributes;
};

// If a frame has this extension, the runtime only asks for the handler's version.
constexpr int32_t kMetadataExtension = 1;

struct Metadata {
  size_t struct_size;
  Version version;
  uint32_t traits;
};

struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

}  // namespace hvdlite::ingraph::ffi
