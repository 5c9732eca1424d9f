// What a raffle's server says of its numbers, doubted as the SDK doubts what it hears: what is not what it should be
// ends a connection and not the page. Of a message that a newer server may have nothing is known but that it came.

import { isNumber, isObject, isText, sure } from '../../sdk/src/said.js';
import { RAFFLE_STATUSES } from './model.js';

/**
 * @typedef {import('./live.js').Char} Char
 * @typedef {import('./model.js').Raffle['status']} Status
 * @typedef {{numbers?: string, status?: Status}} Numbers
 * @typedef {{type: 'snapshot', epoch: number, seq: number, server_time?: string} & Numbers} Snapshot
 * @typedef {{type: 'number_update', seq: number, number_id: number, status: string, user_id?: string}} NumberUpdate
 * @typedef {{type: 'raffle_update', seq: number, status: Status}} RaffleUpdate
 */

const NUMBERS = /^[-rmsb]*$/;
const NUMBER_STATUSES = ['available', 'reserved', 'sold'];

/** @param {unknown} status @returns {status is Status} */
const isStatus = (status) => isText(status) && Object.hasOwn(RAFFLE_STATUSES, status);

/** One character for each number, where it is known. @param {any} said @returns {Numbers} */
export function numbersOf(said) {
  sure(isObject(said), 'the numbers of a raffle');
  sure(said.numbers === undefined || (isText(said.numbers) && NUMBERS.test(said.numbers)), 'numbers');
  sure(said.status === undefined || isStatus(said.status), 'how a raffle is');
  return said;
}

/**
 * A message of the socket.
 * @param {string} data
 * @param {number} count How many numbers there are; 0 where that is not known yet.
 * @returns {Snapshot | NumberUpdate | RaffleUpdate | {type: string, seq?: number}}
 */
export function messageOf(data, count) {
  const said = JSON.parse(data);
  sure(isObject(said) && isText(said.type), 'a message');
  sure(said.seq === undefined || isNumber(said.seq), 'where a message stands');
  if (said.type === 'snapshot') {
    sure(isNumber(said.epoch) && isNumber(said.seq), 'a snapshot');
    numbersOf(said);
  }
  if (said.type === 'number_update') {
    sure(isNumber(said.number_id) && said.number_id >= 1 && said.number_id <= (count || Infinity), 'one of the numbers');
    sure(NUMBER_STATUSES.includes(said.status) && (said.user_id === undefined || isText(said.user_id)), 'how a number is');
  }
  if (said.type === 'raffle_update') sure(isStatus(said.status), 'how a raffle is');
  return said;
}
