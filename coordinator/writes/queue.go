// Package writes queues what a run writes to its disk, and notices when the disk makes no progress.
//
// Code that holds the coordinator's lock never waits for the disk: heartbeats need that lock, and an agent whose
// heartbeats are not answered loses its lease. What a run's machine decides is queued under the lock, in order. A
// goroutine of the run writes it, and only then tells agents and followers.
package writes

import (
	"sync"
)

// Queue is the queue of a run's tasks that may wait for the disk. It is safe for concurrent use; the zero value is
// ready to use.
type Queue struct {
	mu     sync.Mutex
	tasks  []func()
	pushed int  // number of the newest task
	busy   bool // a goroutine works on them
}

// Push adds a task. It returns the task's number, and whether the caller must start the goroutine that works on the
// queue. It does not block.
func (q *Queue) Push(task func()) (number int, start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tasks = append(q.tasks, task)
	q.pushed++
	start, q.busy = !q.busy, true
	return q.pushed, start
}

// Extend calls more if the task with a number is the newest and has not begun, and reports whether it did. So a task
// can do more at its place in the queue: Pop returns it after more has returned, or more is not called.
func (q *Queue) Extend(number int, more func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if number != q.pushed || len(q.tasks) == 0 {
		return false
	}
	more()
	return true
}

// Pop removes and returns the oldest task. If there is none, it returns nil and the goroutine must end.
func (q *Queue) Pop() func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.tasks) == 0 {
		q.busy = false
		return nil
	}
	task := q.tasks[0]
	q.tasks = q.tasks[1:]
	return task
}
