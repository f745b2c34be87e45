// The parameters of kernel launches. Host and device code share this file, so it uses built-in
// types only.
//
// A list of tensors travels in the launch's own parameters, for which every device has 4 KiB. So
// there is no table to copy, to keep, or to wait for. The list is cut into pieces of equal size,
// one block for each. So a list of one huge tensor and a hundred tiny ones keeps the whole device
// busy.
#pragma once

namespace hvdlite::kernels::cuda {

constexpr unsigned kThreads = 256;
constexpr int kPieceBytes = 32 * 1024;
constexpr int kEntries = 128;  // in a list

struct MoveList {
  struct Entry {
    const void* from;
    void* to;
    long long elements;
  };
  Entry entries[kEntries];
  // Ascending: entry i has the pieces first_piece[i] to first_piece[i + 1] - 1.
  unsigned first_piece[kEntries];
  int count;
  int divide;  // whether `first` divides
  double first;
  double second;
};
static_assert(sizeof(MoveList) <= 4096, "more than a launch can carry");

// For Adasum: three sums for each piece of each pair, and then for each pair: a.b, a.a, b.b.
struct PairList {
  struct Entry {
    void* a;
    const void* b;
    long long elements;
  };
  Entry entries[kEntries];
  unsigned first_piece[kEntries + 1];  // the last is the number of all pieces
  int count;
  int swapped;     // for the combination: the sums are b.a, b.b, a.a
  double* pieces;  // 3 for each piece
  double* pairs;   // 3 for each entry
};
static_assert(sizeof(PairList) <= 4096, "more than a launch can carry");

// For codecs (kernels/codec.h, kernels/gpu_codec.h).
constexpr int kCodecEntries = 48;

// scale * input[i] + residual[i]
struct Summands {
  const float* input;
  const float* residual;  // may be null
  float scale;
};

struct EncodeList {
  struct Entry {
    Summands what;
    long long elements;
    unsigned long long key;
    long long block;  // of the tensor, with which the entry begins
    unsigned char* encoded;
  };
  Entry entries[kCodecEntries];
  unsigned first_piece[kCodecEntries];
  int count;
  double parameter;
};
static_assert(sizeof(EncodeList) <= 4096, "more than a launch can carry");

struct DecodeList {
  struct Entry {
    const unsigned char* encoded;
    float* values;
    long long elements;
  };
  Entry entries[kEntries];
  unsigned first_piece[kEntries];
  int count;
  int add;  // whether values are added to
  double parameter;
};
static_assert(sizeof(DecodeList) <= 4096, "more than a launch can carry");

struct AddList {
  struct Entry {
    Summands what;
    float* values;
    long long elements;
  };
  Entry entries[kCodecEntries];
  unsigned first_piece[kCodecEntries];
  int count;
};
static_assert(sizeof(AddList) <= 4096, "more than a launch can carry");

struct SettleList {
  struct Entry {
    Summands what;
    const unsigned char* sent;
    const unsigned char* result;
    const float* sum;
    float* residual;
    float* output;
    long long elements;
  };
  Entry entries[kCodecEntries];
  unsigned first_piece[kCodecEntries];
  int count;
  double parameter;
};
static_assert(sizeof(SettleList) <= 4096, "more than a launch can carry");

}  // namespace hvdlite::kernels::cuda
