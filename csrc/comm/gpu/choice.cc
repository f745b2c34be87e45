#include "comm/gpu/choice.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "comm/nccl/library.h"

namespace hvdlite::comm::gpu {

namespace {

std::string RankOf(const std::vector<int>& ranks, size_t member) {
  return "rank " + std::to_string(ranks[member]);
}

bool SameGpu(const Record& a, const Record& b) {
  return std::memcmp(a.uuid.bytes, b.uuid.bytes, sizeof(a.uuid.bytes)) == 0;
}

// Older versions do not know NCCL_MULTI_RANK_GPU_ENABLE.
constexpr int kSharesGpus = 23000;

// NCCL refuses two ranks on one device of one host, unless a setting allows it or NCCL takes them
// to be on two hosts.
bool MayShare(const Record& a, const Record& b) {
  const bool told = a.nccl_shares_gpus && b.nccl_shares_gpus && a.nccl >= kSharesGpus;
  return told || a.nccl_host_id != b.nccl_host_id;
}

std::string CudaText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// If the GPUs of a host do not reach each other directly, NCCL makes segments of 10 MB there, about
// three for each rank.
constexpr int64_t kSharedMemoryEach = 32 << 20;

// Why NCCL may fail although it can be used; empty if no reason is known. The members of a host
// share one /dev/shm.
std::string Doubt(const std::vector<Record>& records, const std::vector<int>& ranks) {
  for (size_t m = 0; m < records.size(); ++m) {
    const auto mates = std::count_if(records.begin(), records.end(),
                                     [&](const Record& r) { return r.host == records[m].host; });
    const int64_t needed = mates * kSharedMemoryEach;
    if (mates == 1 || records[m].shared_memory < 0 || records[m].shared_memory >= needed) continue;
    return "there are " + std::to_string(records[m].shared_memory >> 20) +
           " MiB left in /dev/shm on the host of " + RankOf(ranks, m) + ", where NCCL may need " +
           std::to_string(needed >> 20) + " MiB for " + std::to_string(mates) +
           " ranks. If it fails, give it more (docker run --shm-size=1g)";
  }
  return "";
}

// Why the members cannot use NCCL; empty if they can.
std::string Obstacle(const std::vector<Record>& records, const std::vector<int>& ranks) {
  for (size_t m = 0; m < records.size(); ++m) {
    if (records[m].nccl == 0) return RankOf(ranks, m) + " has no NCCL: " + records[m].no_nccl;
  }
  for (size_t m = 1; m < records.size(); ++m) {
    if (records[m].nccl == records[0].nccl) continue;
    return RankOf(ranks, 0) + " has NCCL " + nccl::VersionText(records[0].nccl) + " and " +
           RankOf(ranks, m) + " has NCCL " + nccl::VersionText(records[m].nccl) +
           ": all ranks need the same version (HVDLITE_NCCL_LIBRARY says which one)";
  }
  for (size_t m = 0; m < records.size(); ++m) {
    if (records[m].nccl_cuda <= records[m].driver / 1000) continue;
    const std::string cuda = std::to_string(records[m].nccl_cuda);
    return RankOf(ranks, m) + " has an NCCL for CUDA " + cuda + " and an NVIDIA driver of CUDA " +
           CudaText(records[m].driver) +
           ": update the driver, or install the package nvidia-nccl-cu" +
           std::to_string(records[m].driver / 1000) + " instead of nvidia-nccl-cu" + cuda;
  }
  for (size_t m = 0; m < records.size(); ++m) {
    for (size_t other = 0; other < m; ++other) {
      if (!SameGpu(records[m], records[other]) || MayShare(records[m], records[other])) continue;
      return RankOf(ranks, other) + " and " + RankOf(ranks, m) + " use the same GPU (" +
             records[m].name +
             "), which NCCL refuses: give each rank its own by "
             "torch.cuda.set_device(hvd.local_rank()), or, if they "
             "are to share it, set NCCL_MULTI_RANK_GPU_ENABLE=1 (NCCL 2.30 or later; this is " +
             nccl::VersionText(records[m].nccl) + ") or a different NCCL_HOSTID for each";
    }
  }
  return "";
}

}  // namespace

Status Decide(const std::vector<Record>& records, const std::vector<int>& ranks,
              const Preference& preference, Choice* choice) {
  *choice = Choice();
  for (size_t m = 0; m < records.size(); ++m) {
    if (records[m].opened) continue;
    choice->why =
        "stage, for now: " + RankOf(ranks, m) + " has called join() before it has used a GPU";
    return Status::Ok();
  }
  choice->route = Route::kStage;
  if (preference.operations == "stage") {
    choice->why = "stage, through host memory: HVDLITE_GPU_OPERATIONS=stage";
    return Status::Ok();
  }
  if (preference.operations == "mpi") {
    choice->why = "stage, through host memory, and from there " + preference.host +
                  ": HVDLITE_GPU_OPERATIONS=mpi (device memory is not handed to MPI itself)";
    return Status::Ok();
  }
  const std::string obstacle = Obstacle(records, ranks);
  if (obstacle.empty()) {
    choice->route = Route::kNccl;
    choice->why = "nccl " + nccl::VersionText(records[0].nccl);
    const std::string doubt = Doubt(records, ranks);
    choice->warn = !doubt.empty();
    if (choice->warn) choice->why += ", but " + doubt;
    return Status::Ok();
  }
  if (preference.operations == "nccl") {
    return Status::InvalidArgument("HVDLITE_GPU_OPERATIONS=nccl, but " + obstacle +
                                   ". Without NCCL: HVDLITE_GPU_OPERATIONS=stage");
  }
  choice->why = "stage, through host memory, because " + obstacle;
  choice->warn = true;
  return Status::Ok();
}

}  // namespace hvdlite::comm::gpu
