#include "comm/gpu/communicator.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>

#include "comm/gpu/exchange.h"
#include "kernels/gpu.h"

namespace hvdlite::comm::gpu {

namespace {

// The most bytes of a member's reason why it cannot take part.
constexpr size_t kReasonBytes = 256;

}  // namespace

// One batch, from the first exchange to the work on the stream.
class Communicator::GpuWork final : public Work {
 public:
  GpuWork(Communicator* owner, const Batch& batch, bool encodes)
      : all_(*owner), batch_(batch), encodes_(encodes) {}

  Progress Advance() override {
    switch (stage_) {
      case Stage::kBegin: return Begin();
      case Stage::kMeet: return Meet();
      case Stage::kConnect: return Connect();
      case Stage::kAsk: return Ask();
      case Stage::kMove: return Move();
    }
    return Progress::kNone;
  }

  device::EventPtr finished() const override {
    return move_ == nullptr ? nullptr : move_->finished();
  }
  bool failed_alone() const override { return failed_alone_; }

 private:
  enum class Stage : uint8_t { kBegin, kMeet, kConnect, kAsk, kMove };

  Progress Begin() {
    if (all_.choice_.route == Route::kLater && all_.refused_.ok()) {
      Record mine;
      const Status described = all_.Describe(&mine);
      if (!described.ok()) return Fail(described);
      exchange_ = std::make_unique<Exchange>(all_.host_, members(), Encode(mine));
      stage_ = Stage::kMeet;
      return Progress::kSome;
    }
    return AskFirst();
  }

  // All members exchange their records.
  Progress Meet() {
    const Progress progress = exchange_->Advance();
    if (progress == Progress::kFailed) return Fail(exchange_->status());
    if (progress != Progress::kDone) return progress;
    std::vector<Record> records(static_cast<size_t>(members()));
    for (int m = 0; m < members(); ++m) {
      const Status read = Decode(exchange_->From(m), &records[static_cast<size_t>(m)]);
      if (!read.ok()) return Fail(read);
    }
    const Status judged = all_.Judge(records);
    if (!judged.ok()) return Fail(judged);
    stage_ = Stage::kConnect;
    return Progress::kSome;
  }

  // All members connect to NCCL, if they have decided for it.
  Progress Connect() {
    if (all_.channels_ != nullptr) {
      bool ready = false;
      const Status status = all_.channels_->Poll(&ready);
      if (!status.ok()) return Fail(status);
      if (!ready) return Progress::kNone;
      const nccl::Context context{all_.options_.me, members(), all_.kernels_, all_.options_.grid};
      all_.nccl_ = std::make_unique<nccl::Communicator>(std::move(all_.channels_), context);
      all_.nccl_->CountIn(all_.carrier_counts());
    }
    return AskFirst();
  }

  // All members say whether they can take part, if that is in question.
  Progress AskFirst() {
    if (!all_.refused_.ok()) return FailAlone(all_.refused_);
    if (encodes_) encoding_ = all_.EncodingOf(batch_);
    if (!encodes_ && !all_.AsksFirst(batch_)) return StartMoving();
    std::string reason = Reserve().message().substr(0, kReasonBytes - 1);
    reason.resize(kReasonBytes, '\0');
    exchange_ = std::make_unique<Exchange>(all_.host_, members(), std::move(reason));
    stage_ = Stage::kAsk;
    return Progress::kSome;
  }

  Progress Ask() {
    const Progress progress = exchange_->Advance();
    if (progress == Progress::kFailed) return Fail(exchange_->status());
    if (progress != Progress::kDone) return progress;
    for (int m = 0; m < members(); ++m) {
      const std::string_view padded = exchange_->From(m);
      const std::string reason(padded.substr(0, padded.find('\0')));
      if (reason.empty()) continue;
      return FailAlone(Status::Io("rank " +
                                  std::to_string(all_.options_.ranks[static_cast<size_t>(m)]) +
                                  " cannot take part: " + reason +
                                  ". The operation has failed on all ranks; nothing else has"));
    }
    for (const Batch* batch : Travelling()) all_.Agreed(*batch);
    return StartMoving();
  }

  Progress StartMoving() {
    exchange_.reset();
    if (encodes_ || !all_.ByNccl(batch_)) {
      for (const device::EventPtr& event : batch_.ready) {
        const Status held = event->MakeWait(all_.gpu_->stream());
        if (!held.ok()) return Fail(held);
      }
    }
    move_ = encodes_ ? std::move(encoding_) : all_.StartAgreed(batch_);
    stage_ = Stage::kMove;
    return Progress::kSome;
  }

  // The batches that NCCL or staging carries.
  std::vector<const Batch*> Travelling() const {
    return encodes_ ? encoding_->exchanges() : std::vector<const Batch*>{&batch_};
  }
  // Takes what this member needs for taking part.
  Status Reserve() {
    HVDLITE_RETURN_IF_ERROR(batch_.obstacle);
    if (encodes_) HVDLITE_RETURN_IF_ERROR(encoding_->Reserve());
    for (const Batch* batch : Travelling()) HVDLITE_RETURN_IF_ERROR(all_.Reserve(*batch));
    return Status::Ok();
  }

  Progress Move() {
    const Progress progress = move_->Advance();
    return progress == Progress::kFailed ? Fail(move_->status()) : progress;
  }

  Progress FailAlone(Status status) {
    failed_alone_ = true;
    return Fail(std::move(status));
  }

  int members() const { return static_cast<int>(all_.options_.ranks.size()); }

  Communicator& all_;
  const Batch& batch_;
  const bool encodes_;
  Stage stage_ = Stage::kBegin;
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<Encoding> encoding_;  // until it moves
  std::unique_ptr<Work> move_;
  bool failed_alone_ = false;
};

Communicator::Communicator(comm::Communicator* host, Card* card, Options options)
    : host_(host), card_(card), options_(std::move(options)) {}

const char* Communicator::name() const {
  if (nccl_ != nullptr) return nccl_->name();
  return staging_ == nullptr ? "gpu" : staging_->name();
}

std::string Communicator::Explain(const Batch& batch) const {
  if (staging_ == nullptr) return "the members have not decided yet";
  if (ByNccl(batch)) return nccl_->Explain(batch);
  std::string why;
  if (nccl_ != nullptr && !nccl_->Can(batch, &why)) why = " (not by NCCL: " + why + ")";
  return staging_->Explain(batch) + why;
}

std::unique_ptr<Work> Communicator::Start(const Batch& batch) {
  return std::make_unique<GpuWork>(this, batch, /*encodes=*/false);
}

std::unique_ptr<Work> Communicator::StartEncoded(const Batch& batch, int, int) {
  return std::make_unique<GpuWork>(this, batch, /*encodes=*/true);
}

// The members decide alike: the kernels are in the records of all.
std::unique_ptr<Encoding> Communicator::EncodingOf(const Batch& batch) {
  const int members = static_cast<int>(options_.ranks.size());
  if (!kernels_ || host_->has_levels())
    return EncodeOnHost(gpu_, host_, batch, options_.me, members);
  return EncodeOnDevice(
      gpu_, [this](const Batch& exchange) { return StartAgreed(exchange); }, carrier_counts(),
      batch, options_.me, members);
}

Status Communicator::FindGpu() {
  return gpu_ != nullptr ? Status::Ok() : card_->OpenStream(&gpu_);
}

Status Communicator::Describe(Record* record) {
  HVDLITE_RETURN_IF_ERROR(FindGpu());
  if (gpu_ == nullptr) return Status::Ok();
  record->opened = true;
  record->uuid = gpu_->uuid();
  record->ordinal = gpu_->ordinal();
  record->name = gpu_->name();
  record->driver = gpu_->driver().version;
  record->kernels = kernels::Usable(gpu_.get()).ok();
  const Config& config = card_->config;
  record->nccl_host_id = config.nccl_host_id;
  record->nccl_shares_gpus = config.nccl_multi_rank_gpu;
  if (options_.preference.operations == "stage" || options_.preference.operations == "mpi")
    return Status::Ok();
  std::shared_ptr<const nccl::Library> library;
  Status usable = card_->Nccl(&library);
  if (usable.ok()) usable = MakeIds(*library);
  record->no_nccl = usable.message();
  if (!usable.ok()) return Status::Ok();
  record->unique_ids = unique_ids_;
  record->nccl = library->version;
  record->nccl_cuda = library->cuda;
  record->host = options_.host;
  struct statvfs shared;
  if (statvfs("/dev/shm", &shared) == 0)
    record->shared_memory = static_cast<int64_t>(shared.f_bavail * shared.f_frsize);
  return Status::Ok();
}

Status Communicator::MakeIds(const nccl::Library& library) {
  const nccl::Grid& grid = options_.grid;
  const std::array makes = {options_.me == 0, grid.used && grid.place == 0,
                            grid.used && grid.host == 0};
  for (size_t among = 0; among < makes.size(); ++among) {
    nccl::UniqueId id;
    if (!makes[among] || !unique_ids_[among].empty()) continue;
    HVDLITE_RETURN_IF_ERROR(nccl::NewUniqueId(library, &id));
    unique_ids_[among].assign(id.bytes, sizeof(id.bytes));
  }
  return Status::Ok();
}

// An error here ends the job. An error with which all members refuse alike is in refused_.
Status Communicator::Judge(const std::vector<Record>& records) {
  refused_ = Decide(records, options_.ranks, options_.preference, &choice_);
  if (!refused_.ok()) return Status::Ok();
  if (choice_.route == Route::kNccl && !options_.grid.why.empty())
    choice_.why += "; " + options_.grid.why;
  if (options_.me == 0 && options_.log != nullptr) {
    if (choice_.warn)
      options_.log->Warning("tensors on GPUs: " + choice_.why);
    else
      options_.log->Info("tensors on GPUs: " + choice_.why);
  }
  // Made anew with each choice, so that the members start without any agreed memory.
  staging_ = std::make_unique<StagingCommunicator>(
      host_, gpu_, options_.me, static_cast<int>(options_.ranks.size()), options_.room);
  staging_->CountIn(carrier_counts());
  kernels_ = true;
  for (const Record& record : records) kernels_ &= record.kernels;
  return choice_.route == Route::kNccl ? Meet(records) : Status::Ok();
}

// The first member of each communicator makes its id.
Status Communicator::Meet(const std::vector<Record>& records) {
  const nccl::Grid& grid = options_.grid;
  const std::array<int, 3> first = {0, grid.first_of_host, grid.first_of_place};
  std::vector<nccl::CommSpec> specs = {{{}, options_.me, static_cast<int>(options_.ranks.size())}};
  if (grid.used) {
    specs.push_back({{}, grid.place, grid.places});
    specs.push_back({{}, grid.host, grid.hosts});
  }
  for (size_t among = 0; among < specs.size(); ++among) {
    const std::string& id = records[static_cast<size_t>(first[among])].unique_ids[among];
    nccl::UniqueId& there = specs[among].id;
    if (id.size() != sizeof(there.bytes))
      return Status::Internal("the first of the ranks gave no id for NCCL");
    std::memcpy(there.bytes, id.data(), sizeof(there.bytes));
  }
  std::shared_ptr<const nccl::Library> library;
  HVDLITE_RETURN_IF_ERROR(card_->Nccl(&library));
  return nccl::Channels::Begin(std::move(library), gpu_, std::move(specs), &channels_);
}

bool Communicator::ByNccl(const Batch& batch) const {
  std::string why;
  return nccl_ != nullptr && nccl_->Can(batch, &why);
}

bool Communicator::AsksFirst(const Batch& batch) const {
  const Result result = ResultOf(batch.kind);
  if (result == Result::kGathered || result == Result::kExchanged) return true;
  return StagingGrows(batch);
}

bool Communicator::StagingGrows(const Batch& batch) const {
  return !ByNccl(batch) && staging_->Grows(batch);
}

Status Communicator::Reserve(const Batch& batch) {
  return StagingGrows(batch) ? staging_->Reserve(batch) : Status::Ok();
}

void Communicator::Agreed(const Batch& batch) {
  if (!ByNccl(batch)) staging_->Agreed(batch);
}

std::unique_ptr<Work> Communicator::StartAgreed(const Batch& batch) {
  return ByNccl(batch) ? nccl_->Start(batch) : staging_->Start(batch);
}

Status Communicator::Look() {
  return nccl_ == nullptr ? Status::Ok() : nccl_->Look();
}

bool Communicator::ShutDown(const Until& until) {
  if (channels_ != nullptr) return false;  // not all members have connected
  return nccl_ == nullptr || nccl_->ShutDown(until);
}

void Communicator::BeginAbort() {
  if (channels_ != nullptr) channels_->BeginAbort();
  if (nccl_ != nullptr) nccl_->BeginAbort();
}

void Communicator::EndAbort(const Deadline& deadline) {
  if (channels_ != nullptr) channels_->EndAbort(deadline);
  if (nccl_ != nullptr) nccl_->EndAbort(deadline);
}

bool Communicator::Settle(const Until& until) {
  if (gpu_ == nullptr) return true;
  bool idle = false;
  // A failed device does no more work.
  while (gpu_->Idle(&idle).ok() && !idle) {
    if (until.deadline.Passed() || !until.Look().ok()) return false;
    usleep(100);
  }
  return true;
}

}  // namespace hvdlite::comm::gpu
