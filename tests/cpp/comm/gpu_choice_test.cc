// Who decides what about tensors on GPUs: a table.
#include <gtest/gtest.h>

#include "comm/gpu/choice.h"
#include "testing/says.h"

namespace hvdlite::comm::gpu {
namespace {

Record Member(char device, int nccl = 22703) {
  Record record;
  record.opened = true;
  record.uuid.bytes[0] = device;
  record.name = "NVIDIA H200";
  record.driver = 13000;
  record.nccl = nccl;
  if (nccl == 0) record.no_nccl = "libnccl.so.2 is not installed";
  return record;
}

struct Row {
  const char* what;
  std::vector<Record> records;
  const char* operations;
  Route route;
  const char* why;  // a part of it
  bool warn = false;
};

Record Sharing(char device, const char* host_id, bool shares, int nccl = 23003) {
  Record record = Member(device, nccl);
  record.nccl_host_id = host_id;
  record.nccl_shares_gpus = shares;
  return record;
}

Record ForCuda(int cuda, int driver) {
  Record record = Member(static_cast<char>(driver % 100));
  record.nccl_cuda = cuda;
  record.driver = driver;
  return record;
}

Record WithRoom(char device, int host, int64_t mebibytes) {
  Record record = Member(device);
  record.host = host;
  record.shared_memory = mebibytes << 20;
  return record;
}

TEST(GpuVerdict, follows_from_what_the_members_say) {
  const Record nowhere;
  const Row rows[] = {
      {"all have it", {Member(1), Member(2)}, "auto", Route::kNccl, "nccl 2.27.3"},
      {"alone", {Member(1)}, "auto", Route::kNccl, "nccl 2.27.3"},
      {"wanted", {Member(1), Member(2)}, "nccl", Route::kNccl, "nccl 2.27.3"},
      {"not wanted",
       {Member(1), Member(2)},
       "stage",
       Route::kStage,
       "HVDLITE_GPU_OPERATIONS=stage"},
      {"mpi", {Member(1), Member(2)}, "mpi", Route::kStage, "from there mpi (Open MPI v5)"},
      {"one lacks it",
       {Member(1), Member(2, 0)},
       "auto",
       Route::kStage,
       "rank 7 has no NCCL: libnccl.so.2 is not installed",
       true},
      {"two versions",
       {Member(1), Member(2, 22803)},
       "auto",
       Route::kStage,
       "rank 3 has NCCL 2.27.3 and rank 7 has NCCL 2.28.3",
       true},
      {"one device twice",
       {Member(1), Member(1)},
       "auto",
       Route::kStage,
       "rank 3 and rank 7 use the same GPU",
       true},
      {"it may be shared",
       {Sharing(1, "", true), Sharing(1, "", true)},
       "auto",
       Route::kNccl,
       "nccl"},
      {"NCCL is too old to share it",
       {Sharing(1, "", true, 22907), Sharing(1, "", true, 22907)},
       "auto",
       Route::kStage,
       "NCCL 2.30 or later; this is 2.29.7",
       true},
      {"only one says so",
       {Sharing(1, "", true), Sharing(1, "", false)},
       "auto",
       Route::kStage,
       "same GPU",
       true},
      {"for two hosts",
       {Sharing(1, "a", false), Sharing(1, "b", false)},
       "auto",
       Route::kNccl,
       "nccl"},
      {"for one host",
       {Sharing(1, "a", false), Sharing(1, "a", false)},
       "auto",
       Route::kStage,
       "same GPU",
       true},
      {"a driver that is older than NCCL",
       {ForCuda(13, 13000), ForCuda(13, 12040)},
       "auto",
       Route::kStage,
       "rank 7 has an NCCL for CUDA 13 and an NVIDIA driver of CUDA 12.4: update the driver, or "
       "install the package "
       "nvidia-nccl-cu12",
       true},
      {"drivers that are newer",
       {ForCuda(12, 13010), ForCuda(12, 12020)},
       "auto",
       Route::kNccl,
       "nccl"},
      {"for no CUDA that is known",
       {ForCuda(0, 11040), ForCuda(0, 12020)},
       "auto",
       Route::kNccl,
       "nccl"},
      {"little room in /dev/shm",
       {WithRoom(1, 0, 63), WithRoom(2, 0, 63)},
       "auto",
       Route::kNccl,
       "nccl 2.27.3, but there are 63 MiB left in /dev/shm on the host of rank 3, where NCCL may "
       "need 64 MiB for 2 "
       "ranks",
       true},
      {"enough room", {WithRoom(1, 0, 64), WithRoom(2, 0, 64)}, "auto", Route::kNccl, "nccl"},
      {"alone on each host", {WithRoom(1, 0, 1), WithRoom(2, 1, 1)}, "auto", Route::kNccl, "nccl"},
      {"room of unknown size", {Member(1), Member(2)}, "auto", Route::kNccl, "nccl"},
      {"not yet",
       {Member(1), nowhere},
       "nccl",
       Route::kLater,
       "rank 7 has called join() before it has used a GPU"},
      {"not yet, and no NCCL",
       {Member(1, 0), nowhere},
       "auto",
       Route::kLater,
       "rank 7 has called join()"},
  };
  for (const Row& row : rows) {
    gpu::Choice choice;
    const Status status =
        Decide(row.records, {3, 7}, {row.operations, "mpi (Open MPI v5)"}, &choice);
    EXPECT_TRUE(status.ok()) << row.what << ": " << status.ToString();
    EXPECT_EQ(choice.route, row.route) << row.what;
    EXPECT_TRUE(Says(choice.why, row.why)) << row.what << ": " << choice.why;
    EXPECT_EQ(choice.warn, row.warn) << row.what;
  }
}

TEST(GpuVerdict, names_who_keeps_nccl_from_being_used_where_it_is_demanded) {
  const std::pair<std::vector<Record>, const char*> rows[] = {
      {{Member(1), Member(2, 0)}, "HVDLITE_GPU_OPERATIONS=nccl, but rank 7 has no NCCL"},
      {{Member(1), Member(2, 22803)}, "but rank 3 has NCCL 2.27.3 and rank 7 has NCCL 2.28.3"},
      {{Member(1), Member(1)}, "but rank 3 and rank 7 use the same GPU (NVIDIA H200)"},
      {{ForCuda(13, 12020), ForCuda(13, 13000)},
       "but rank 3 has an NCCL for CUDA 13 and an NVIDIA driver of CUDA 12.2"},
  };
  for (const auto& [records, why] : rows) {
    gpu::Choice choice;
    const Status status = Decide(records, {3, 7}, {"nccl", ""}, &choice);
    EXPECT_TRUE(FailsWith(status, StatusCode::kInvalidArgument, why));
  }
}

TEST(GpuRecord, is_read_as_it_was_written) {
  Record record = Member(5);
  record.uuid.bytes[15] = -1;
  record.ordinal = 3;
  record.nccl_host_id = "here";
  record.nccl_shares_gpus = true;
  record.nccl_cuda = 13;
  record.host = 7;
  record.shared_memory = int64_t{1} << 40;
  for (std::string& id : record.unique_ids) id = std::string(128, '\0');
  record.unique_ids[2][127] = 'x';
  const std::string bytes = Encode(record);
  ASSERT_EQ(bytes.size(), kRecordBytes);
  Record read;
  ASSERT_TRUE(Decode(bytes, &read).ok());
  EXPECT_EQ(Encode(read), bytes);
  EXPECT_EQ(read.unique_ids, record.unique_ids);
  EXPECT_EQ(read.shared_memory, record.shared_memory);
  EXPECT_EQ(read.uuid.bytes[15], -1);
}

TEST(GpuRecord, keeps_its_size_whatever_is_in_it) {
  Record record = Member(1);
  for (std::string* text : {&record.name, &record.no_nccl, &record.nccl_host_id,
                            &record.unique_ids[0], &record.unique_ids[1], &record.unique_ids[2]}) {
    *text = std::string(5000, 'x');
  }
  record.ordinal = record.driver = record.nccl = record.nccl_cuda = record.host = -2000000000;
  record.shared_memory = INT64_MIN;
  const std::string bytes = Encode(record);
  ASSERT_EQ(bytes.size(), kRecordBytes);
  Record read;
  EXPECT_TRUE(Decode(bytes, &read).ok());
  for (size_t cut : {0, 1, 16, 40, 100})
    EXPECT_EQ(Decode(bytes.substr(0, cut), &read).code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace hvdlite::comm::gpu
