#include "transport/shm/host_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace hvdlite::transport::shm {
namespace {

constexpr size_t kPage = 4096;

size_t RoundUp(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

size_t StartBytes(int local_size) {
  return RoundUp(sizeof(SegmentHeader) + static_cast<size_t>(local_size) * sizeof(RankLine), kPage);
}

std::string Mebibytes(size_t bytes) {
  char text[32];
  snprintf(text, sizeof(text), "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace

Status HostSegment::Create(int local_size, std::unique_ptr<HostSegment>* segment) {
  const int fd = memfd_create("hvdlite", MFD_CLOEXEC);
  if (fd < 0) return Status::FromErrno("cannot create shared memory (memfd_create)", errno);
  segment->reset(new HostSegment(fd, local_size));
  return (*segment)->MapStart(/*create=*/true);
}

Status HostSegment::Attach(int fd, int local_size, std::unique_ptr<HostSegment>* segment) {
  segment->reset(new HostSegment(fd, local_size));
  return (*segment)->MapStart(/*create=*/false);
}

HostSegment::~HostSegment() {
  for (const Region& region : regions_) munmap(region.address, region.bytes);
  close(fd_);
}

Status HostSegment::MapStart(bool create) {
  start_bytes_ = StartBytes(local_size_);
  void* address = nullptr;
  HVDLITE_RETURN_IF_ERROR(Map(0, start_bytes_, &address));
  header_ = static_cast<SegmentHeader*>(address);
  lines_ = reinterpret_cast<RankLine*>(header_ + 1);
  if (create) {
    new (header_) SegmentHeader;
    for (int i = 0; i < local_size_; ++i) new (&lines_[i]) RankLine;
    header_->local_size = static_cast<uint32_t>(local_size_);
    header_->magic.store(SegmentHeader::kMagic, std::memory_order_release);
  } else if (header_->magic.load(std::memory_order_acquire) != SegmentHeader::kMagic ||
             header_->local_size != static_cast<uint32_t>(local_size_)) {
    return Status::Internal(
        "the host's shared segment is not the one this rank expects (another version of hvdlite?)");
  }
  return Status::Ok();
}

Status HostSegment::Map(size_t offset, size_t bytes, void** address) {
  // fallocate only ever grows the file, so ranks may call it in any order.
  int rc;
  do {
    rc = fallocate(fd_, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (rc != 0 && errno == EINTR);
  if (rc != 0) {
    return Status::Io(
        "cannot reserve " + Mebibytes(bytes) + " of shared memory: " + strerror(errno) +
        ". Raise the memory limit of this host or container, or lower HVDLITE_SHM_CHUNK_BYTES.");
  }
  void* mapped =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, static_cast<off_t>(offset));
  if (mapped == MAP_FAILED)
    return Status::FromErrno("cannot map " + Mebibytes(bytes) + " of shared memory", errno);
  regions_.push_back({mapped, offset, bytes});
  *address = mapped;
  return Status::Ok();
}

void HostSegment::Unmap(void* address, bool last) {
  const auto region = std::find_if(regions_.begin(), regions_.end(),
                                   [address](const Region& r) { return r.address == address; });
  if (region == regions_.end()) return;
  munmap(region->address, region->bytes);
  if (last) {
    // Memory that is not released here stays until the job's end, which does no harm at once.
    [[maybe_unused]] const int rc =
        fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(region->offset), static_cast<off_t>(region->bytes));
  }
  regions_.erase(region);
}

void HostSegment::SetAbort(const Status& status) {
  uint32_t expected = 0;
  if (!header_->abort_state.compare_exchange_strong(expected, 1, std::memory_order_acq_rel)) return;
  header_->abort_code = static_cast<uint8_t>(status.code());
  header_->abort_cause = static_cast<uint8_t>(status.cause());
  header_->abort_rank_count = static_cast<uint32_t>(status.ranks().size());
  std::copy(status.ranks().begin(), status.ranks().end(), header_->abort_ranks);
  const size_t n = std::min(status.message().size(), SegmentHeader::kAbortTextBytes - 1);
  memcpy(header_->abort_text, status.message().data(), n);
  header_->abort_text[n] = '\0';
  header_->abort_state.store(2, std::memory_order_seq_cst);
}

Status HostSegment::abort_status() const {
  return Status(
      static_cast<StatusCode>(header_->abort_code), header_->abort_text,
      static_cast<Cause>(header_->abort_cause),
      {header_->abort_ranks,
       header_->abort_ranks + std::min<size_t>(header_->abort_rank_count, Status::kMostRanks)});
}

}  // namespace hvdlite::transport::shm
