// Operation: one collective, or one message, of one rank: what was asked for, and how it is done
// over a Rendezvous.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fake_gpu/nccl/abi.h"
#include "fake_gpu/nccl/rendezvous.h"

namespace fake_nccl {

enum class What : int { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kSend, kRecv };

struct Operation {
  What what;
  const void* from;
  void* to;
  size_t count;
  int type;
  int op;
  int peer;  // root, or the other end

  size_t bytes() const { return count * kTypeSizes[type]; }
  bool is_message() const { return what == What::kSend || what == What::kRecv; }
  std::string ToString() const;
};

// What is the matter with it, or nothing.
std::string Problem(const Operation& operation, int rank, int ranks);

struct Place {
  Rendezvous* rendezvous;
  int rank;
  int ranks;
  // Whether to give up: asked again and again while waiting for others.
  std::function<bool()> given_up;
};

// Collectives one after another, messages all at once after them. False: given up, or *problem says
// what is wrong.
bool Perform(const Place& place, const std::vector<Operation>& group, std::string* problem);

}  // namespace fake_nccl
