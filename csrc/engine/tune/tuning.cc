#include "engine/tune/tuning.h"

#include <fstream>
#include <sstream>

#include "engine/shapes.h"

namespace hvdlite::engine {
namespace {

// The columns up to the score are Horovod's.
constexpr char kColumns[] =
    "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,cycle_time_ms,"
    "tensor_fusion_threshold,score,net_byte_cost,shm_small_bytes,shm_chunk_bytes,sample,event";

const char* WordFor(Tuner::Event event) {
  switch (event) {
    case Tuner::Event::kWarmsUp: return "warmup";
    case Tuner::Event::kMeasures: return "measured";
    case Tuner::Event::kWon: return "won";
    case Tuner::Event::kLost: return "lost";
    case Tuner::Event::kRegime: return "regime";
  }
  return "";
}

}  // namespace

DialRanges DialsOf(const Config& config, std::string_view communicator, bool over_mpi) {
  DialRanges ranges{};
  const auto open = [&](Dial dial) { ranges[static_cast<size_t>(dial)] = WidestRange(dial); };
  if (config.cycle_time > 0) open(Dial::kWindow);
  if (config.fusion_threshold > 0) open(Dial::kFusion);
  const bool hierarchical = communicator == "hierarchical";
  if (communicator == "net" || (hierarchical && !over_mpi)) open(Dial::kByteCost);
  if (communicator == "shm") open(Dial::kSmall);
  if (communicator == "shm" || hierarchical) open(Dial::kChunk);
  return ranges;
}

Status Tuning::Begin(const Config& config, const Logger& log, const comm::World& world,
                     const ProcessSet& set, uint32_t generation, std::unique_ptr<Tuning>* out) {
  if (!config.autotune || set.ranks.size() == 1) return Status::Ok();
  DialRanges ranges = DialsOf(config, set.group->communicator->name(), world.mpi().use);
  HVDLITE_RETURN_IF_ERROR(Fix(config.autotune_keep, &ranges));
  const JobShape shape{static_cast<int>(set.ranks.size()),
                       static_cast<int>(world.roster().hosts.size())};
  out->reset(new Tuning(config, log, ranges, shape));
  if (set.agreement->is_root()) (*out)->BecomeRoot(generation);
  return Status::Ok();
}

void Tuning::BecomeRoot(uint32_t generation) {
  const Config& config = config_;
  TunerOptions tuner;
  tuner.ranges = ranges_;
  tuner.warmup_samples = static_cast<int>(config.autotune_warmup_samples);
  tuner.start = Saved();
  Meter::Options meter;
  meter.steps = static_cast<int>(config.autotune_steps_per_sample);
  meter.at_least =
      static_cast<Nanos>(config.autotune_sample_ms * static_cast<double>(kMillisecond));
  root_ = std::make_unique<Root>(tuner, meter);
  if (config.autotune_log.empty()) return;
  const bool append = generation > 1;
  const Status opened = root_->journal.Open(config.autotune_log, append);
  if (!opened.ok()) return log_.Warning(opened.message());
  if (!append) root_->journal.Line(kColumns);
}

Setting Tuning::Saved() const {
  const Config& config = config_;
  const std::string& path = config.autotune_file;
  if (path.empty()) return {};
  std::ifstream file(path);
  if (!file) return {};  // the first job
  std::stringstream text;
  text << file.rdbuf();
  std::string why;
  const std::optional<Setting> saved = ReadSaved(text.str(), shape_, &why);
  if (!saved) {
    log_.Warning("Autotuner: does not use '" + path + "': " + why);
    return {};
  }
  log_.Info("Autotuner: begins with '" + path + "': " + Words(*saved));
  return *saved;
}

Tuning::~Tuning() {
  if (root_ == nullptr || root_->samples == 0) return;
  Row("best", root_->tuner.champion(), root_->tuner.champion_score());
  Save();
}

void Tuning::Ended(const ProcessSet& set, const Running& running, ProcessSet* world, Nanos now) {
  if (set.id == 0) ++batches_;
  if (root_ == nullptr || root_->told || !HasTensor(running.batch.kind) ||
      running.batch.device.kind != DeviceKind::kHost)
    return;
  if (!root_->begun) {
    root_->begun = true;
    root_->meter.Begin(now);
    // A saved setting is not the one that the ranks began with.
    root_->told = !(root_->tuner.setting() == setting_);
  }
  bool complete = false;
  for (size_t i = 0; i < running.entries.size(); ++i) {
    const Entry* const entry = running.entries[i];
    if (entry == nullptr || complete) continue;
    const Agreed& agreed = *running.responses[i].agreed;
    const int64_t bytes =
        running.TensorOf(i) < 0 ? static_cast<int64_t>(entry->output.bytes()) : ResultBytes(agreed);
    complete = root_->meter.Add(agreed.request.name, entry->submitted, now, bytes);
  }
  if (complete) {
    root_->told = Decide();
    root_->meter.Begin(now);
  }
  if (root_->told)
    world->agreement->Tell(Down::kTune, root_->tuner.setting().Pack(), &world->heard);
}

void Tuning::Apply(uint64_t packed, Sets* sets, Turn* turn, Nanos now) {
  Setting next;
  if (!Setting::Unpack(packed, &next)) return;  // the agreement has refused it
  setting_ = next;
  ++changes_;
  last_change_ = batches_;
  turn->GatherFor(
      static_cast<Nanos>(setting_.CycleTimeMs(config_) * static_cast<double>(kMillisecond)));
  for (const ProcessSetPtr& set : sets->mine()) set->agreement->FuseUpTo(fusion_threshold());
  comm::Tunables tunables;
  tunables.byte_cost = setting_.Factor(Dial::kByteCost);
  tunables.small = setting_.Factor(Dial::kSmall);
  tunables.chunk = setting_.Factor(Dial::kChunk);
  // The other sets are at other points of their schedules on other ranks.
  sets->world().group->communicator->Tune(tunables);
  if (root_ == nullptr) return;
  root_->told = false;
  root_->meter.Begin(now);
}

bool Tuning::Decide() {
  const double score = root_->meter.score();
  const Tuner::Outcome outcome = root_->tuner.Add(score);
  ++root_->samples;
  Row(WordFor(outcome.event), outcome.measured, score);
  Say(outcome, score);
  if (outcome.event == Tuner::Event::kWon) Save();
  return !(root_->tuner.setting() == outcome.measured);
}

void Tuning::Say(const Tuner::Outcome& outcome, double score) {
  const auto info = [this](const std::string& text) { log_.Info("Autotuner: " + text); };
  const std::string champion = Words(root_->tuner.champion());
  const std::string ratio = Digits(outcome.ratio);
  info("sample " + std::to_string(root_->samples) + ", " + WordFor(outcome.event) + ", " +
       Digits(score / 1e6) + " MB/s: " + Words(outcome.measured));
  switch (outcome.event) {
    case Tuner::Event::kWon:
      info("changes to " + champion + ", which is " + ratio + " times as fast as " +
           Words(outcome.other));
      break;
    case Tuner::Event::kLost:
      info("keeps " + champion + "; " + Words(outcome.other) + " is " + ratio + " times as fast");
      break;
    case Tuner::Event::kRegime:
      info("searches again, because the speed has changed by more than 30 %");
      break;
    default: break;
  }
  if (root_->tuner.converged() && !root_->said_converged)
    info("has tried all neighbours of " + champion + ", and tries them again now and then");
  root_->said_converged = root_->tuner.converged();
}

void Tuning::Row(const char* event, const Setting& setting, double score) {
  const std::string rest =
      Digits(setting.Factor(Dial::kByteCost)) + "," +
      Digits(static_cast<double>(config_.shm_small_bytes) * setting.Factor(Dial::kSmall)) + "," +
      Digits(static_cast<double>(config_.shm_chunk_bytes) * setting.Factor(Dial::kChunk)) + "," +
      std::to_string(root_->samples) + "," + event;
  root_->journal.Line(std::string(config_.hierarchical_allreduce == "on" ? "1" : "0") + ",0," +
                      (config_.torus_allreduce ? "1," : "0,") +
                      (config_.cache_capacity > 0 ? "1," : "0,") +
                      Digits(setting.CycleTimeMs(config_)) + "," +
                      Digits(static_cast<double>(setting.FusionThreshold(config_)) / (1 << 20)) +
                      "," + Digits(score / 1e6) + "," + rest);
}

void Tuning::Save() {
  if (config_.autotune_file.empty()) return;
  root_->journal.Replace(config_.autotune_file,
                         SavedText(root_->tuner.champion(), shape_, config_));
}

std::string Tuning::Report() const {
  std::string out = "{\"cycle_time_ms\": " + Digits(setting_.CycleTimeMs(config_)) +
                    ", \"fusion_threshold\": " + std::to_string(fusion_threshold());
  for (const Dial dial : {Dial::kByteCost, Dial::kSmall, Dial::kChunk}) {
    if (ranges_[static_cast<size_t>(dial)].fixed()) continue;
    out += ", \"" + std::string(Name(dial)) + "_factor\": " + Digits(setting_.Factor(dial));
  }
  out += ", \"changes\": " + std::to_string(changes_) +
         ", \"last_change_at_batch\": " + std::to_string(last_change_);
  if (root_ != nullptr) {
    out += ", \"samples\": " + std::to_string(root_->samples) +
           ", \"converged\": " + (root_->tuner.converged() ? "true" : "false");
  }
  return out + "}";
}

}  // namespace hvdlite::engine
