#include "comm/gpu/record.h"

#include <cstring>

#include "base/codec.h"

namespace hvdlite::comm::gpu {

namespace {

// Six texts of this length fit into a record, whatever the numbers.
constexpr size_t kLongestText = 190;

std::string_view Shorten(std::string_view text) {
  return text.substr(0, kLongestText);
}

}  // namespace

std::string Encode(const Record& record) {
  Writer out;
  out.U8(record.opened ? 1 : 0);
  out.Text({record.uuid.bytes, sizeof(record.uuid.bytes)});
  out.Signed(record.ordinal);
  out.Text(Shorten(record.name));
  out.Signed(record.driver);
  out.Signed(record.nccl);
  out.Text(Shorten(record.no_nccl));
  out.Signed(record.nccl_cuda);
  out.Signed(record.host);
  out.Signed(record.shared_memory);
  out.Text(Shorten(record.nccl_host_id));
  out.U8(record.kernels ? 1 : 0);
  out.U8(record.nccl_shares_gpus ? 1 : 0);
  for (const std::string& id : record.unique_ids) out.Text(Shorten(id));
  std::string bytes = out.Take();
  bytes.resize(kRecordBytes, '\0');
  return bytes;
}

Status Decode(std::string_view bytes, Record* record) {
  Reader in(bytes);
  record->opened = in.U8() != 0;
  const std::string uuid = in.Text();
  record->ordinal = static_cast<int>(in.Signed());
  record->name = in.Text();
  record->driver = static_cast<int>(in.Signed());
  record->nccl = static_cast<int>(in.Signed());
  record->no_nccl = in.Text();
  record->nccl_cuda = static_cast<int>(in.Signed());
  record->host = static_cast<int>(in.Signed());
  record->shared_memory = in.Signed();
  record->nccl_host_id = in.Text();
  record->kernels = in.U8() != 0;
  record->nccl_shares_gpus = in.U8() != 0;
  for (std::string& id : record->unique_ids) id = in.Text();
  if (!in.ok() || uuid.size() != sizeof(record->uuid.bytes)) {
    return Status::Internal(
        "the GPU record of a rank cannot be read; do all run the same version of hvdlite?");
  }
  std::memcpy(record->uuid.bytes, uuid.data(), uuid.size());
  return Status::Ok();
}

}  // namespace hvdlite::comm::gpu
