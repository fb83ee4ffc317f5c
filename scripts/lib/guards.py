#!/usr/bin/env python3
"""
Removes the guards of a command's life one after the other and has the deterministic world find out.

    scripts/test --guards [--seeds N] [--from SEED] [--only NAME] [--write docs/guards.md]

A copy of the sources gets a switch at every guard (the product has none), is built once, and is run with each guard
switched off until a seed breaks a rule of the referee. A guard without a finding, a switch that does not fit the
sources any more, or a finding with all guards in place ends this with 1.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
VARIABLE = 'EMBODIED_HARNESS_REMOVED_GUARD'
SWITCH = """
/// Whether a guard is switched off in this process: only in a copy that was made to find out.
pub fn is_removed(guard: &str) -> bool {
    static REMOVED: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    REMOVED.get_or_init(|| std::env::var("%s").unwrap_or_default()) == guard
}
""" % VARIABLE


@dataclasses.dataclass(frozen=True)
class Guard:
    """A guard: its invariant, what it is, and the places at which it can be switched off."""

    name: str
    invariant: int
    what: str
    # File, what stands there exactly once, what it becomes; OFF is true when the guard is removed.
    places: tuple


def guard(name, invariant, what, *places):
    """Create a guard; OFF in a replacement becomes its switch."""
    switch = f'eh_contract::is_removed("{name}")'
    return Guard(name, invariant, what, tuple(
        (file, old, new.replace('OFF', switch)) for file, old, new in places))


ADMISSION = 'src/ledger/src/admission.rs'
GATE = 'src/executor/src/executor/gate.rs'
PURSUING = 'src/executor/src/executor/pursuing.rs'
STOPPING = 'src/executor/src/executor/stopping.rs'
TRANSITION = 'src/ledger/src/executor/transition.rs'
FOLLOWING = 'src/ledger/src/issuer/following.rs'
JUDGING = 'src/ledger/src/issuer/judging.rs'

GUARDS = (
    guard(
        'known-command', 1, 'a command that is known is not taken again',
        (ADMISSION,
         'if let Some(known) = view.known {',
         'if let Some(known) = view.known.filter(|_| !OFF) {')),
    guard(
        'digest-conflict', 1, 'the same id with another digest is refused',
        (ADMISSION,
         'if known.digest != digest {',
         'if known.digest != digest && OFF {} else if known.digest != digest {'),
        (ADMISSION,
         'if known.segment == request.segment {',
         'if known.segment == request.segment && (known.digest == digest || !OFF) {'),
        (ADMISSION,
         'return refuse(\n            ErrorCode::CommandIdConflict,\n            format!("segment {} of',
         'if !OFF { return refuse(\n            ErrorCode::CommandIdConflict,\n'
         '            format!("segment {} of'),
        (ADMISSION,
         'this executor runs one segment a command", known.segment, command.command_id, '
         'request.segment),\n        );',
         'this executor runs one segment a command", known.segment, command.command_id, '
         'request.segment),\n        ); }')),
    guard(
        'journal-first', 2, 'an executor that can not write does not send',
        ('src/executor/src/executor/apply.rs',
         'if !ends_motion(event) {',
         'if !ends_motion(event) && !OFF {'),
        ('src/executor/src/executor/writing.rs',
         '            Err(failure) => {\n                cx.out',
         '            Err(_) if OFF => Ok(phase),\n            Err(failure) => {\n                cx.out')),
    guard(
        'sent-once', 2, 'a new harness asks about a goal that was sent and does not send it again',
        ('src/ledger/src/issuer/waiting.rs',
         '        match self.state {\n            CommandState::Dispatched\n'
         '            | CommandState::Accepted\n            | CommandState::Running\n'
         '            | CommandState::Canceling => vec![IssuerEffect::QueryExecutor],',
         '        match self.state {\n            CommandState::Dispatched if OFF => self\n'
         '                .goals.last()\n'
         '                .map(|g| IssuerEffect::Send { segment: g.segment, goal_id: g.goal_id })\n'
         '                .into_iter().collect(),\n            CommandState::Dispatched\n'
         '            | CommandState::Accepted\n            | CommandState::Running\n'
         '            | CommandState::Canceling => vec![IssuerEffect::QueryExecutor],')),
    guard(
        'lost-acknowledgement', 2, 'a goal that nobody acknowledged counts as one that may run',
        (PURSUING,
         'return self.lose(id, ErrorCode::AcknowledgementLost, message, cx);',
         'if OFF {\n'
         '                    self.goal_refused(id, &goal_id, "never sent", cx);\n'
         '                    let cause = failure(ErrorCode::ServerUnavailable, message);\n'
         '                    return self.bring_to_standstill(id, cause, Some(run), cx);\n'
         '                }\n'
         '                return self.lose(id, ErrorCode::AcknowledgementLost, message, cx);')),
    guard(
        'lost-result', 2, 'how a goal ended is not guessed',
        (PURSUING,
         'return self.lose(id, ErrorCode::ResultLost, message, cx);',
         'if OFF {\n'
         '                        self.goal_ended(id, &goal_id, &NativeEnd::by_status(6), cx);\n'
         '                        let cause = failure(ErrorCode::ServerUnavailable, message);\n'
         '                        return self.bring_to_standstill(id, cause, Some(run), cx);\n'
         '                    }\n'
         '                    return self.lose(id, ErrorCode::ResultLost, message, cx);')),
    guard(
        'unknown-goal', 2, 'a goal that its server does not know is not one that never ran',
        (STOPPING,
         'self.note(id, &lost(&open.action_name, &open.goal_id), cx);\n                return Phase::Over;',
         'if OFF {\n'
         '                    self.goal_refused(id, &open.goal_id, "not known", cx);\n'
         '                    continue;\n'
         '                }\n'
         '                self.note(id, &lost(&open.action_name, &open.goal_id), cx);\n'
         '                return Phase::Over;')),
    guard(
        'start-within', 3, 'nothing starts after its time',
        (ADMISSION,
         'if age >= envelope.start_within {',
         'if age >= envelope.start_within && !OFF {'),
        ('src/executor/src/executor/starting.rs',
         'if tick >= admitted.start_by {',
         'if tick >= admitted.start_by && !OFF {')),
    guard(
        'old-token', 3, 'an older fencing token is refused',
        (ADMISSION,
         'if envelope.fencing_token != 0 && envelope.fencing_token < view.lease.newest_token {',
         'if envelope.fencing_token != 0 && envelope.fencing_token < view.lease.newest_token'
         ' && !OFF {')),
    guard(
        'other-robot', 3, 'a command for another robot is refused',
        (ADMISSION,
         'if command.robot_id != view.robot_id {',
         'if command.robot_id != view.robot_id && !OFF {')),
    guard(
        'preconditions', 3, 'what does not hold any more starts nothing',
        (ADMISSION,
         'None | Some(SceneCheck::Holds) => Admission::Admit(admitted),',
         'None | Some(SceneCheck::Holds) => Admission::Admit(admitted),\n'
         '        Some(_) if OFF => Admission::Admit(admitted),')),
    guard(
        'earlier-life', 3, 'what an earlier life of the executor was asked has expired',
        (ADMISSION,
         'if beacon.boot_id != view.boot_id {',
         'if beacon.boot_id != view.boot_id && !OFF {')),
    guard(
        'latched-stop', 3, 'nothing starts or goes on under a latched stop',
        (ADMISSION,
         'if let Some(stop_id) = view.stop_latched {',
         'if let Some(stop_id) = view.stop_latched.filter(|_| !OFF) {'),
        ('src/executor/src/executor/watching.rs',
         'let stop = cx.turn.senses.stop_latched().is_some();',
         'let stop = cx.turn.senses.stop_latched().is_some() && !OFF;')),
    guard(
        'resources', 3, 'what another command holds is refused, by issuer and executor',
        (ADMISSION,
         'if let Some(holder) = view.held.get(resource) {',
         'if let Some(holder) = view.held.get(resource).filter(|_| !OFF) {'),
        ('src/ledger/src/issuer.rs',
         'self.state != CommandState::Proposed && !self.state.is_terminal()',
         'self.state != CommandState::Proposed && !self.state.is_terminal() && !OFF')),
    guard(
        'terminal', 4, 'late news changes nothing about what is over',
        (FOLLOWING,
         'state if state.is_terminal() => return self.late(),',
         'state if state.is_terminal() && !OFF => return self.late(),'),
        ('src/harness/src/harness/executing.rs',
         'if record.state.is_terminal() {',
         'if record.state.is_terminal() && !OFF {')),
    guard(
        'unknown-holds', 5, 'UNKNOWN holds its resources, at issuer and executor',
        ('src/ledger/src/issuer.rs',
         'self.state != CommandState::Proposed && !self.state.is_terminal()',
         'self.state != CommandState::Proposed && !self.state.is_terminal()\n'
         '            && !(OFF && matches!(self.state, CommandState::Unknown | CommandState::Reconciling))'),
        (GATE,
         'held.extend(held_resources(self.live_records()));',
         'held.extend(held_resources(self.live_records().filter(|r| !OFF\n'
         '            || r.control_end != eh_contract::state::ControlEnd::Lost)));')),
    guard(
        'lost-is-unknown', 5, 'control that was lost is UNKNOWN and not FAILED',
        (FOLLOWING,
         'effects.extend(self.unknown(code, why, now));\n            }\n        }\n        effects',
         'if OFF {\n'
         '                    effects.extend(self.end(CommandState::Failed, Some((code, why)), now));\n'
         '                } else {\n'
         '                    effects.extend(self.unknown(code, why, now));\n'
         '                }\n            }\n        }\n        effects')),
    guard(
        'standstill', 6, 'standstill is measured before a stop is called confirmed',
        (STOPPING,
         'match cx.turn.senses.standing(since, base, &joints) {',
         'match cx.turn.senses.standing(since, base, &joints).or_else(|e| if OFF { Ok(()) }'
         ' else { Err(e) }) {')),
    guard(
        'goals-are-over', 6, 'a stop is not confirmed while a goal may run',
        (TRANSITION,
         'fn all_goals_are_over(&self) -> Result<(), ExecutorError> {\n',
         'fn all_goals_are_over(&self) -> Result<(), ExecutorError> {\n'
         '        if OFF {\n            return Ok(());\n        }\n'),
        (STOPPING,
         'let Some(open) = record.open_goals().next().cloned() else {',
         'let Some(open) = record.open_goals().next().filter(|_| !OFF).cloned() else {')),
    guard(
        'verdict', 7, 'an end of control is no success without a verdict',
        (FOLLOWING,
         'if self.evaluated {',
         'if self.evaluated && !OFF {')),
    guard(
        'unknown-verdict', 7, 'a verdict UNKNOWN is no success',
        (JUDGING,
         'Outcome::Unknown => self.look_again(reason, policy, now),',
         'Outcome::Unknown if OFF => self.end(CommandState::Succeeded, None, now),\n'
         '            Outcome::Unknown => self.look_again(reason, policy, now),')),
    guard(
        'ledger-first', 11, 'what is not on the disk is not sent',
        ('src/harness/src/performing.rs',
         'if self.trouble.is_none() {\n            return performer.give_out(effect);',
         'if self.trouble.is_none() || OFF {\n            return performer.give_out(effect);')),
    guard(
        'told-when-kept', 11, 'the end of a task is told when it is on the disk',
        ('src/harness/src/performing.rs',
         'match effect.without_disk() {',
         'if OFF && matches!(effect, Effect::Finish(_)) {\n'
         '            return performer.give_out(effect);\n        }\n'
         '        match effect.without_disk() {')),
    guard(
        'attempts', 12, 'a step that failed is tried again a bounded number of times, by harness and planner',
        ('src/harness/src/budget.rs',
         'if hopeless || failures.attempts >= limit {',
         'if (hopeless || failures.attempts >= limit) && !OFF {'),
        ('src/harness/src/budget.rs',
         '.filter(|f| f.hopeless || f.attempts >= self.limits.attempts.max(1))',
         '.filter(|f| (f.hopeless || f.attempts >= self.limits.attempts.max(1)) && !OFF)'),
        ('src/planner/src/symbolic/experience.rs',
         'if hopeless || *count >= MAX_FAILURES {',
         'if (hopeless || *count >= MAX_FAILURES) && !OFF {')),
    guard(
        'never-sent', 13, 'a command that an earlier harness did not send is dropped',
        ('src/harness/src/harness/resuming.rs',
         'self.apply(&id, IssuerEvent::Expired { reason }, now, out);',
         'if !OFF {\n'
         '                        self.apply(&id, IssuerEvent::Expired { reason }, now, out);\n'
         '                    }')),
    guard(
        'new-token', 13, 'each grant of the lease has a larger token, over any crash',
        ('src/protection/src/lease.rs',
         '        let token = self\n            .reserved\n            .checked_add(1)',
         '        let token = self\n            .reserved\n            .checked_add(u64::from(!OFF))')),
    guard(
        'foreign-goal', 16, 'a goal that is not ours holds its resource',
        ('src/executor/src/executor/pursuing.rs',
         'open.into_iter().find(|g| !is_ours(g))',
         'open.into_iter().find(|g| !is_ours(g) && !OFF)')),
    guard(
        'kept-stop', 0, 'a latched stop survives a restart of protection',
        ('src/protection/src/stop.rs',
         '            KeptStop::Free => return,',
         '            KeptStop::Free => return,\n            KeptStop::Latched(_) if OFF => return,')),
)


class Trouble(Exception):
    """Why this can't go on, in a sentence."""


def refresh(folder):
    """Bring the copy up to date; what has not changed keeps its time, so that it is not built again."""
    wanted = {pathlib.Path(name) for name in ('Cargo.toml', 'Cargo.lock')}
    wanted |= {p.relative_to(TOP) for p in (TOP / 'src').rglob('*') if p.is_file()}
    texts = {path: (TOP / path).read_bytes() for path in wanted}
    for name, text in switched({str(p): t for p, t in texts.items()}).items():
        texts[pathlib.Path(name)] = text
    for path, text in texts.items():
        target = folder / path
        if not target.is_file() or target.read_bytes() != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
    for path in (folder / 'src').rglob('*'):
        if path.is_file() and path.relative_to(folder) not in wanted:
            path.unlink()


def switched(texts):
    """Return the files that get a switch, with it."""
    changed = {'src/contract/src/lib.rs': texts['src/contract/src/lib.rs'].decode() + SWITCH}
    # Switches at the same place go into each other: each finds the text as the one before has left it.
    places = {}
    for each in GUARDS:
        for file, old, new in each.places:
            places.setdefault((file, old), []).append((each.name, new))
    for (file, old), news in places.items():
        text = changed.get(file) or texts[file].decode()
        if texts[file].decode().count(old) != 1:
            names = ', '.join(name for name, _ in news)
            raise Trouble(f'the switch of {names} does not fit {file} any more: {old!r} stands there '
                          f'{texts[file].decode().count(old)} times, and has to once; bring it up to date in '
                          'scripts/lib/guards.py')
        for _, new in news:
            if text.count(old) != 1:
                raise Trouble(f'two switches in {file} are in each other\'s way at {old!r}')
            text = text.replace(old, new)
        changed[file] = text
    return {file: text.encode() for file, text in changed.items()}


def run(program, removed, seeds, first):
    """Run seeds without a guard; return the finding seed and rule, and how many runs it took."""
    environment = dict(os.environ, **{VARIABLE: removed})
    done = subprocess.run([program, '--seeds', str(seeds), '--from', str(first), '--first'],
                          env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1):
        raise Trouble(f'{program} ended with {done.returncode} without {removed or "nothing"}:\n{done.stdout}')
    runs = int(re.search(r'^(\d+) runs', done.stdout).group(1))
    found = re.search(r'^seed (\d+): +[\d.]+ s: ([^:]+): (.*)$', done.stdout, re.MULTILINE)
    return (int(found.group(1)), found.group(2)) if found else None, runs


def line(each, found, runs):
    """Return a guard's line of the table."""
    seed, rule = found if found else ('none', f'not found in {runs} runs')
    files = ', '.join(sorted({'`' + file.removeprefix('src/') + '`' for file, _, _ in each.places}))
    return f'| {each.invariant or "protection"} | {each.name} | {each.what} | {files} | {seed} | {rule} |'


HEADER = """\
# Guards

Each guard of a command's life, taken away by itself, is missed by the deterministic world: this table says by which
seed, counted from {first}, and which rule of the referee is broken then. The numbers are those of the invariants in
the design. With every guard in place the same {seeds} seeds break no rule.

```
scripts/test --guards --write docs/guards.md      makes this table again
scripts/test --guards --only old-token            one of them
```

`scripts/lib/guards.py` puts a switch at each guard of a copy of the sources; the product has none. When a guard is
changed, its switch there has to follow: `test/test_guards.py` says so. `CONTRIBUTING.md` asks for a test of each guard
besides; this is the check that the world as a whole would notice.

| invariant | guard | what it keeps | where | seed | rule that is broken without it |
|---|---|---|---|---|---|
"""


def main():
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seeds', type=int, default=1000, help='most runs for each guard')
    parser.add_argument('--from', type=int, default=1, dest='first', help='the first seed')
    parser.add_argument('--only', action='append', help='only the guard of this name; may be given again')
    parser.add_argument('--write', type=pathlib.Path, help='also write the table into this file')
    parser.add_argument('--folder', type=pathlib.Path, default=TOP / 'build' / 'guards',
                        help='where the copy is made and built')
    options = parser.parse_args()
    names = {each.name for each in GUARDS}
    for name in options.only or []:
        if name not in names:
            raise Trouble(f'there is no guard {name!r}; there are {", ".join(sorted(names))}')
    folder = options.folder.resolve()
    refresh(folder / 'sources')
    environment = dict(os.environ, CARGO_TARGET_DIR=str(folder / 'target'))
    built = subprocess.run(['cargo', 'build', '--release', '--locked', '--quiet', '-p', 'eh_world',
                            '--example', 'world_seeds'],
                           cwd=folder / 'sources', env=environment, check=False)
    if built.returncode:
        raise Trouble(f'the copy in {folder / "sources"} does not compile with its switches, see above')
    program = folder / 'target' / 'release' / 'examples' / 'world_seeds'
    table = []
    bad = []
    found, runs = run(program, '', options.seeds if not options.only else 50, options.first)
    print(f'all guards in place: {runs} runs, {"no violation" if found is None else found}', flush=True)
    if found:
        bad.append(f'seed {found[0]} breaks "{found[1]}" with all guards in place')
    for each in GUARDS:
        if options.only and each.name not in options.only:
            continue
        found, runs = run(program, each.name, options.seeds, options.first)
        table.append(line(each, found, runs))
        print(table[-1], flush=True)
        if not found:
            bad.append(f'nothing misses {each.name} in {runs} runs')
    if options.write and not options.only:
        header = HEADER.format(first=options.first, seeds=f'{options.seeds:,}')
        options.write.write_text(header + '\n'.join(table) + '\n')
    for reason in bad:
        print(reason)
    return 1 if bad else 0


if __name__ == '__main__':
    try:
        sys.exit(main())
    except Trouble as trouble:
        print(f'guards: {trouble}', file=sys.stderr)
        sys.exit(2)
