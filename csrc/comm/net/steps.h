// Steps: a work that is a list of exchanges and local stretches of arithmetic, one after another.
//
// It is for algorithms whose steps depend on one another as a whole (gather, Adasum, barrier).
// Within an exchange, sending and receiving progress independently.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "comm/net/net_work.h"

namespace hvdlite::comm::net {

class Steps : public NetWork {
 public:
  explicit Steps(Wire* wire) : NetWork(wire) {}

  static constexpr int kNobody = -1;
  struct Transfer {
    int member = kNobody;
    const Flat* flat = nullptr;
    Cursor bytes;
  };

  // The Flats must live as long as the steps: Keep() them.
  void Exchange(Transfer send, Transfer receive) { steps_.push_back({send, receive, nullptr, {}}); }
  // Calls compute(begin, end) over `bytes`, a piece at a time. Does nothing if `bytes` is empty.
  void Compute(Cursor bytes, std::function<void(size_t, size_t)> compute) {
    steps_.push_back({{}, {}, std::move(compute), bytes});
  }
  void Call(std::function<void()> compute) {
    Compute({0, 1}, [compute = std::move(compute)](size_t, size_t) { compute(); });
  }
  // Keeps something that the steps refer to.
  template <typename T>
  T* Keep(std::unique_ptr<T> object) {
    kept_.push_back(std::shared_ptr<void>(std::move(object)));
    return static_cast<T*>(kept_.back().get());
  }

 protected:
  Status Turn(bool* done) override;

 private:
  struct Step {
    Transfer send;
    Transfer receive;
    std::function<void(size_t, size_t)> compute;
    Cursor stretch;
  };

  std::vector<Step> steps_;
  size_t now_ = 0;
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace hvdlite::comm::net
