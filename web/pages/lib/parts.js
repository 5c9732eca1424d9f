// The parts of the place: what stands in the rail and on the first page, and which pages belong to each. Pages
// are modules, fetched when they are first needed.

/**
 * @typedef {import('../../i18n/index.js').Key} Key
 *
 * @typedef {object} Part
 * @property {string} path
 * @property {Key} title
 * @property {Key} text What one does there.
 * @property {string[]} [roles] Who sees it; everyone, if not said.
 * @property {Record<string, () => Promise<any>>} pages
 */

/** @type {Part[]} */
export const PARTS = [
  {
    path: '/app/tasks',
    title: 'tasks.title',
    text: 'tasks.text',
    pages: {
      '/app/tasks': () => import('../tasks/list.js'),
      '/app/tasks/:id': () => import('../tasks/task.js'),
    },
  },
  {
    path: '/app/jobs',
    title: 'jobs.title',
    text: 'jobs.text',
    pages: {
      '/app/jobs': () => import('../jobs/jobs.js'),
      '/app/jobs/:id': () => import('../jobs/jobs.js'),
    },
  },
  {
    path: '/app/labels',
    title: 'labels.title',
    text: 'labels.text',
    pages: {
      '/app/labels': () => import('../labels/projects.js'),
      '/app/labels/:project': () => import('../labels/images.js'),
      '/app/labels/:project/:image': () => import('../labels/canvas.js'),
    },
  },
  {
    path: '/app/raffles',
    title: 'buy.title',
    text: 'buy.text',
    pages: {
      '/app/raffles': () => import('../raffle/list.js'),
      '/app/raffles/:id': () => import('../raffle/raffle.js'),
      '/app/reservations': () => import('../raffle/mine.js'),
      '/app/reservations/:id': () => import('../raffle/reservation.js'),
      '/app/pay/:id': () => import('../raffle/payment.js'),
    },
  },
  {
    path: '/app/admin',
    title: 'admin.title',
    text: 'admin.text',
    roles: ['admin'],
    pages: {
      '/app/admin': () => import('../admin/payments.js'),
      '/app/admin/payments/:id': () => import('../admin/payments.js'),
      '/app/admin/raffles': () => import('../admin/raffles.js'),
      '/app/admin/raffles/:id': () => import('../admin/raffle.js'),
      '/app/admin/providers': () => import('../admin/providers.js'),
    },
  },
  {
    path: '/app/console',
    title: 'console.title',
    text: 'console.text',
    roles: ['admin'],
    pages: {
      '/app/console': () => import('../console/claims.js'),
      '/app/console/audit': () => import('../console/audit.js'),
      '/app/console/policies': () => import('../console/policies.js'),
      '/app/console/keys': () => import('../console/keys.js'),
      '/app/console/health': () => import('../console/health.js'),
      '/app/console/item/:kind/:name/:item': () => import('../console/item.js'),
    },
  },
];

/** The parts that this role sees. @param {string | null} role */
export const partsFor = (role) => PARTS.filter(({ roles }) => !roles || roles.includes(role ?? ''));
