// Record: what a member of a process set tells the others of its GPU, before they decide alike how
// tensors on GPUs travel.
//
// Of a fixed size, so that one allgather through the host communicator is all it takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "device/driver.h"

namespace hvdlite::comm::gpu {

struct Record {
  // This rank has opened a GPU; otherwise the other fields are unset.
  bool opened = false;
  device::Uuid uuid{};
  int ordinal = 0;
  std::string name;               // "NVIDIA H200"
  int driver = 0;                 // 13000: CUDA 13.0
  int nccl = 0;                   // 22703: 2.27.3; 0: there is none
  std::string no_nccl;            // a sentence why
  int nccl_cuda = 0;              // 13: that NCCL was built for CUDA 13; 0: not known
  int host = 0;                   // the number of this member's host within the set
  int64_t shared_memory = -1;     // bytes that are free there in /dev/shm; -1: not known
  std::string nccl_host_id;       // NCCL_HOSTID: where NCCL believes to be, if not where it is
  bool kernels = false;           // kernels/gpu.h works here
  bool nccl_shares_gpus = false;  // NCCL_MULTI_RANK_GPU_ENABLE
  // of NCCL's communicators to be, by nccl::Among; where this member is the first of one
  std::array<std::string, 3> unique_ids;
};

constexpr size_t kRecordBytes = 1408;

// Exactly kRecordBytes; texts that are too long are cut off.
std::string Encode(const Record& record);
// Safe for any bytes. kInternal: these are no record.
Status Decode(std::string_view bytes, Record* record);

}  // namespace hvdlite::comm::gpu
