// Record: a member's description of its GPU. The members exchange records before they decide alike
// how tensors on GPUs travel.
//
// The size is fixed, so one allgather through the host communicator is enough.
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
  std::string no_nccl;            // why there is none
  int nccl_cuda = 0;              // 13: NCCL was built for CUDA 13; 0: not known
  int host = 0;                   // the number of this member's host within the set
  int64_t shared_memory = -1;     // free bytes in its /dev/shm; -1: not known
  std::string nccl_host_id;       // NCCL_HOSTID: the host that NCCL assumes, if it is set
  bool kernels = false;           // kernels/gpu.h works here
  bool nccl_shares_gpus = false;  // NCCL_MULTI_RANK_GPU_ENABLE
  // the ids of NCCL's communicators of which this member is the first, by nccl::Among
  std::array<std::string, 3> unique_ids;
};

constexpr size_t kRecordBytes = 1408;

// Exactly kRecordBytes; texts that are too long are cut.
std::string Encode(const Record& record);
// Safe for any bytes. kInternal: the bytes are no record.
Status Decode(std::string_view bytes, Record* record);

}  // namespace hvdlite::comm::gpu
